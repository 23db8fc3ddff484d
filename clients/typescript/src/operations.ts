// Written by generate.py from the server's table of operations; change that instead.
import type {
  AllowOrdersAnswer,
  AuditAnswer,
  AuditRequest,
  AuditVerifyAnswer,
  CalAnswer,
  CalCancelAnswer,
  CalCapabilities,
  CalCheckAnswer,
  CalOwnedExecuteRequest,
  CalPagedQueryRequest,
  CalPrepareAnswer,
  CalQueryRequest,
  CalTokenAnswer,
  CalTokenRequest,
  Capabilities,
  ChangesAnswer,
  ConsentAnswer,
  ElsewhereAnswer,
  EraseAnswer,
  EraseUserAnswer,
  EraseUserRequest,
  ExportAnswer,
  FeedbackAnswer,
  FeedbackRequest,
  FindAnswer,
  ForgetAnswer,
  ForgetManyAnswer,
  ForgetManyRequest,
  ForgetRequest,
  GetAnswer,
  GetRequest,
  GrainAnswer,
  GrainExportAnswer,
  HistoryAnswer,
  HoldAnswer,
  IdsRequest,
  ImportPartAnswer,
  ImportPartRequest,
  ImportRequest,
  ImportsAnswer,
  ListAnswer,
  Manifest,
  OamsBatch,
  OamsConsentedRecallRequest,
  OamsDream,
  OamsDreamRequest,
  OamsDreams,
  OamsExport,
  OamsMemories,
  OamsMemory,
  OamsNamespaces,
  OamsPage,
  OamsSent,
  OamsUndone,
  OriginsAnswer,
  OwnedFindRequest,
  PlaceAnswer,
  ProjectsAnswer,
  PruneAnswer,
  PruneRequest,
  PutAnswer,
  PutRequest,
  QuotaRequest,
  ReasonRequest,
  RecallAnswer,
  RecallRequest,
  RedactAnswer,
  RehydrateAnswer,
  RehydrateRequest,
  RememberAnswer,
  RememberRequest,
  Report,
  ReviseAnswer,
  ReviseRequest,
  RulesAnswer,
  RulesRequest,
  ShortIdsAnswer,
  SimilarAnswer,
  StandardsAnswer,
  StatsAnswer,
  SupersedeAnswer,
  SupersedeRequest,
  SuspectsAnswer,
  SuspectsBesideAnswer,
  TenantDeletionRequest,
  TenantPartRequest,
  UndoAnswer,
  UndoImportAnswer,
  UndoImportRequest,
  VerificationAnswer,
  VerificationRequest,
  VerifyAnswer,
} from "./types.js";

/** The fields and the answer of each operation, by its name in the OpenAPI document. */
export interface Operations {
  /** Describe the server: protocol version, kinds of memory, limits (UMP §3.1) */
  capabilities: {
    fields: { [name: string]: never };
    answer: Capabilities;
  };
  /** Return the discovery manifest (UMP §4.3) */
  manifest: {
    fields: { [name: string]: never };
    answer: Manifest;
  };
  /** Write one memory (UMP §3.3) */
  remember: {
    fields: RememberRequest;
    answer: RememberAnswer;
  };
  /** Find the best memories for a query, with the signals behind their scores (UMP §3.2) */
  recall: {
    fields: RecallRequest;
    answer: RecallAnswer;
  };
  /** Recall memories as one framed block for a model's context (UMP §5.3) */
  rehydrate: {
    fields: RehydrateRequest;
    answer: RehydrateAnswer;
  };
  /** List the latest memories, last updated first */
  list_memories: {
    fields: {
      project?: string;
      user?: string;
      agent?: string;
      session?: string;
      kind?: ("episodic" | "identity" | "procedural" | "semantic" | "working")[] | "episodic" | "identity" | "procedural" | "semantic" | "working";
      tags?: string[] | string;
      standard?: "oams" | "oms" | "openwop" | "ump";
      since?: string;
      valid_at?: string;
      known_at?: string;
      limit?: number;
      cursor?: string;
    };
    answer: ListAnswer;
  };
  /** Count the memories of the owner, by kind and by project */
  stats: {
    fields: { [name: string]: never };
    answer: StatsAnswer;
  };
  /** Return one record by its id (UMP §3.4) */
  get: {
    fields: {
      id: string;
    };
    answer: GetAnswer;
  };
  /** List all versions of a memory, oldest first */
  history: {
    fields: {
      id: string;
      cursor?: string;
    };
    answer: HistoryAnswer;
  };
  /** Report the outcome of a recalled memory (UMP §3.8) */
  feedback: {
    fields: FeedbackRequest;
    answer: FeedbackAnswer;
  };
  /** Write a new version of a memory (UMP §3.5) */
  revise: {
    fields: ReviseRequest;
    answer: ReviseAnswer;
  };
  /** Tombstone a memory, or erase it for good with `hard` (UMP §3.6) */
  forget: {
    fields: ForgetRequest;
    answer: ForgetAnswer;
  };
  /** Forget or erase several memories as one action, which one undo reverts */
  forget_many: {
    fields: ForgetManyRequest;
    answer: ForgetManyAnswer;
  };
  /** List the last matching audit events, oldest first */
  audit: {
    fields: AuditRequest;
    answer: AuditAnswer;
  };
  /** Verify the audit chain */
  audit_verify: {
    fields: {
      owner?: string;
    };
    answer: AuditVerifyAnswer;
  };
  /** Recall memories, without the documents of other standards that records carry */
  recall_bare: {
    fields: RecallRequest;
    answer: RecallAnswer;
  };
  /** Count the results of a question in other projects, if it found nothing in its own */
  elsewhere: {
    fields: RecallRequest;
    answer: ElsewhereAnswer;
  };
  /** Return one memory in the form of each standard */
  seen_as: {
    fields: {
      id: string;
    };
    answer: StandardsAnswer;
  };
  /** List the sources of a memory, the memories made from it, and how many an erasure removes */
  origins: {
    fields: {
      id: string;
    };
    answer: OriginsAnswer;
  };
  /** List the memories that state nearly the same, which this one may replace */
  similar: {
    fields: {
      id: string;
    };
    answer: SimilarAnswer;
  };
  /** List the projects that have or had memories */
  projects: {
    fields: { [name: string]: never };
    answer: ProjectsAnswer;
  };
  /** Return the shortest unique beginnings of ids */
  short_ids: {
    fields: IdsRequest;
    answer: ShortIdsAnswer;
  };
  /** Undo the last action: forget a remembered memory, or restore a revised or forgotten one */
  undo_last: {
    fields: { [name: string]: never };
    answer: UndoAnswer;
  };
  /** Do the action again that was undone last */
  redo_last: {
    fields: { [name: string]: never };
    answer: UndoAnswer;
  };
  /** Return the rules set by the owner, beyond those of the server */
  rules: {
    fields: { [name: string]: never };
    answer: RulesAnswer;
  };
  /** Set the owner's rules: compliance presets and smaller limits; only the owner may */
  set_rules: {
    fields: RulesRequest;
    answer: RulesAnswer;
  };
  /** Return a page of the change feed after a position */
  changes: {
    fields: {
      owner?: string;
      user?: string;
      project?: string;
      agent?: string;
      session?: string;
      visibility?: "private" | "public" | "shared";
      after?: number;
    };
    answer: ChangesAnswer;
  };
  /** Return the current position of the change feed; it reveals no memory, and is not audited */
  feed_position: {
    fields: { [name: string]: never };
    answer: PlaceAnswer;
  };
  /** Return the position at which the feed of a scope ends; a subscriber starts there */
  feed_end: {
    fields: {
      owner?: string;
      user?: string;
      project?: string;
      agent?: string;
      session?: string;
      visibility?: "private" | "public" | "shared";
    };
    answer: PlaceAnswer;
  };
  /** Delete the audit events before a moment; only the owner may */
  audit_prune: {
    fields: PruneRequest;
    answer: PruneAnswer;
  };
  /** Export the records that their consent allows, page by page, in the order written */
  export: {
    fields: {
      owner?: string;
      project?: string;
      history?: boolean;
      carry?: boolean;
      ids?: string[] | string;
      cursor?: string;
    };
    answer: ExportAnswer;
  };
  /** Import the records of an export; records that exist already are unchanged */
  import_records: {
    fields: ImportRequest;
    answer: Report;
  };
  /** List the imports that can be undone, the last first */
  imports: {
    fields: { [name: string]: never };
    answer: ImportsAnswer;
  };
  /** Import one part of a longer import, in the form of any standard; all parts can be undone together */
  import_part: {
    fields: ImportPartRequest;
    answer: ImportPartAnswer;
  };
  /** Undo an import, by default the last; memories changed since are kept */
  undo_import: {
    fields: UndoImportRequest;
    answer: UndoImportAnswer;
  };
  /** List memories with likely secrets, which are not shown, page by page; a page may be empty */
  suspects: {
    fields: {
      cursor?: string;
    };
    answer: SuspectsAnswer;
  };
  /** List workspace files and logs of runs with likely secrets */
  suspects_beside: {
    fields: {
      cursor?: string;
    };
    answer: SuspectsBesideAnswer;
  };
  /** List memories that look like prompt injection, page by page; a page may be empty */
  orders: {
    fields: {
      cursor?: string;
    };
    answer: SuspectsAnswer;
  };
  /** Mark a memory that looks like prompt injection as safe; it is not listed again unless it changes */
  allow_orders: {
    fields: GetRequest;
    answer: AllowOrdersAnswer;
  };
  /** Remove a likely secret from a memory for good; only the owner may */
  redact: {
    fields: GetRequest;
    answer: RedactAnswer;
  };
  /** Check every signature, the audit chain and the database */
  verify: {
    fields: {
      owner?: string;
    };
    answer: VerifyAnswer;
  };
  /** Stream changes as server-sent events: created, merged, revised, tombstoned (UMP §3.8). The stream has no end; each event's data is {type, id, record}, and its id is its position in the feed */
  subscribe: {
    fields: {
      owner?: string;
      user?: string;
      project?: string;
      agent?: string;
      session?: string;
      visibility?: "private" | "public" | "shared";
      after?: number;
    };
    answer: undefined;
  };
  /** Add a grain: its fields, its canonical bytes, or its envelope (OMS §28.4) */
  grain_put: {
    fields: PutRequest;
    answer: PutAnswer;
  };
  /** Return one grain by its address: as JSON, or as the bytes that were written */
  grain_get: {
    fields: {
      /** SHA-256 of the grain. */
      address: string;
    };
    answer: GrainAnswer;
  };
  /** Return one grain for export; refused if its consent or a rule of its owner forbids that */
  grain_leave: {
    fields: {
      /** SHA-256 of the grain. */
      address: string;
    };
    answer: GrainAnswer;
  };
  /** Export the grains that their consent allows, as bytes, page by page, in the order written */
  grain_export: {
    fields: {
      owner?: string;
      namespace?: string;
      history?: boolean;
      cursor?: string;
    };
    answer: GrainExportAnswer;
  };
  /** Find grains by structure, in the order written, or by keywords, best first (OMS §28) */
  grain_list: {
    fields: {
      text?: string;
      subject?: string;
      relation?: string;
      object?: string;
      namespace?: string;
      user_id?: string;
      session_id?: string;
      type?: "belief" | "fact" | "event" | "state" | "workflow" | "action" | "tool" | "observation" | "goal" | "reasoning" | "consensus" | "consent" | string;
      current?: boolean;
      limit?: number;
      cursor?: string;
      owner?: string;
    };
    answer: FindAnswer;
  };
  /** Find grains, with the query as JSON */
  grain_search: {
    fields: OwnedFindRequest;
    answer: FindAnswer;
  };
  /** Set the verification status of a grain; contesting and retracting need its policy's consent (OMS §23) */
  grain_verification: {
    fields: {
      /** SHA-256 of the grain. */
      address: string;
    } & VerificationRequest;
    answer: VerificationAnswer;
  };
  /** Put a legal hold on a grain: it cannot be superseded, contradicted or erased */
  grain_hold: {
    fields: {
      /** SHA-256 of the grain. */
      address: string;
    } & ReasonRequest;
    answer: HoldAnswer;
  };
  /** Lift a legal hold */
  grain_release: {
    fields: {
      /** SHA-256 of the grain. */
      address: string;
      reason?: string;
    };
    answer: HoldAnswer;
  };
  /** Replace a grain as its policy allows, in one atomic step (OMS §28.4) */
  grain_supersede: {
    fields: {
      /** SHA-256 of the grain. */
      address: string;
    } & SupersedeRequest;
    answer: SupersedeAnswer;
  };
  /** Erase a memory, or one grain of it, for compliance; holds are honoured (OMS §28.4) */
  grain_erase: {
    fields: {
      /** SHA-256 of the grain. */
      address: string;
      reason?: string;
      scope?: "grain" | "memory";
    };
    answer: EraseAnswer;
  };
  /** Erase everything of a user, and destroy the user's key (OMS §20.3) */
  user_erase: {
    fields: EraseUserRequest;
    answer: EraseUserAnswer;
  };
  /** Return the consent that allows somebody to act on a person's memories now (OMS §8.10) */
  consents: {
    fields: {
      subject_did: string;
      grantee_did: string;
      scope?: string;
    };
    answer: ConsentAnswer;
  };
  /** Run a query (CAL §15, §26); an ASSEMBLE is streamed as events if Accept prefers them */
  cal: {
    fields: CalPagedQueryRequest;
    answer: CalAnswer;
  };
  /** Check if a text is a valid query, and return its first error; nothing is run */
  cal_check: {
    fields: CalQueryRequest;
    answer: CalCheckAnswer;
  };
  /** Fix a query and show what it would do; its token executes it once (CAL §18) */
  cal_prepare: {
    fields: CalQueryRequest;
    answer: CalPrepareAnswer;
  };
  /** Execute a prepared query exactly as it was prepared (CAL §18) */
  cal_execute: {
    fields: CalOwnedExecuteRequest;
    answer: CalAnswer;
  };
  /** Issue a capability token that limits what its bearer may query, and how often (CAL §18); for `X-CAL-Token` */
  cal_token: {
    fields: CalTokenRequest;
    answer: CalTokenAnswer;
  };
  /** Remove a template stored by DEFINE TEMPLATE; only the owner may */
  cal_remove_template: {
    fields: {
      name: string;
      namespace?: string;
      owner?: string;
    };
    answer: undefined;
  };
  /** Stream an ASSEMBLE as events; closing the connection cancels it (CAL §11) */
  cal_stream: {
    fields: CalQueryRequest;
    answer: undefined;
  };
  /** Cancel a stream of the same credential; it ends with the event `cancelled` (CAL-E082) */
  cal_cancel: {
    fields: {
      assembly_id: string;
    };
    answer: CalCancelAnswer;
  };
  /** Return the supported parts of CAL: DESCRIBE capabilities (CAL §24) */
  cal_capabilities: {
    fields: { [name: string]: never };
    answer: CalCapabilities;
  };
  /** STORE: write a memory; storing the same content again changes nothing (OAMS §3) */
  oams_store: {
    fields: {
      /** `<owner-hash>:<scope>`, without slash or further colon (OAMS §4). Any other name (§2), of at most 512 characters, is a scope of the caller's own. */
      namespace: string;
      key: string;
    } & OamsSent;
    answer: OamsMemory;
  };
  /** Return one memory by its key */
  oams_get: {
    fields: {
      /** `<owner-hash>:<scope>`, without slash or further colon (OAMS §4). Any other name (§2), of at most 512 characters, is a scope of the caller's own. */
      namespace: string;
      key: string;
    };
    answer: OamsMemory;
  };
  /** FORGET: remove a memory from all answers (OAMS §3) */
  oams_forget: {
    fields: {
      /** `<owner-hash>:<scope>`, without slash or further colon (OAMS §4). Any other name (§2), of at most 512 characters, is a scope of the caller's own. */
      namespace: string;
      key: string;
    };
    answer: undefined;
  };
  /** LIST: list the memories of a namespace, last updated first (OAMS §3) */
  oams_list: {
    fields: {
      /** `<owner-hash>:<scope>`, without slash or further colon (OAMS §4). Any other name (§2), of at most 512 characters, is a scope of the caller's own. */
      namespace: string;
      cursor?: string;
      limit?: number;
      since?: string;
      tags?: string[];
    };
    answer: OamsPage;
  };
  /** Export a namespace as lines of an export file, page by page; consent may exclude memories */
  oams_export: {
    fields: {
      /** `<owner-hash>:<scope>`, without slash or further colon (OAMS §4). Any other name (§2), of at most 512 characters, is a scope of the caller's own. */
      namespace: string;
      cursor?: string;
    };
    answer: OamsExport;
  };
  /** List the caller's own namespace, and those that have memories */
  oams_namespaces: {
    fields: { [name: string]: never };
    answer: OamsNamespaces;
  };
  /** BATCH_STORE: write many memories, all or none (OAMS §3) */
  oams_batch_store: {
    fields: OamsBatch;
    answer: OamsMemories;
  };
  /** RECALL: find the best memories for a query, each with `metadata.score` (OAMS §3, §4) */
  oams_recall: {
    fields: OamsConsentedRecallRequest;
    answer: OamsMemories;
  };
  /** Consolidate a namespace: run one strategy, as a preview or for good (OAMS §6) */
  oams_consolidate: {
    fields: OamsDreamRequest;
    answer: OamsDream;
  };
  /** List the consolidation runs that changed something and were not undone, the last first */
  oams_dreams: {
    fields: { [name: string]: never };
    answer: OamsDreams;
  };
  /** Undo a consolidation: remove its results, restore what it removed */
  oams_undo_dream: {
    fields: {
      /** The id of the run. */
      run_id: string;
    };
    answer: OamsUndone;
  };
  /** Return all owners with the amounts that they store and their quotas; for the operator */
  list_tenants: {
    fields: { [name: string]: never };
    answer: { [name: string]: unknown };
  };
  /** Set the limits of one owner in place of the server's; for the operator */
  set_quota: {
    fields: QuotaRequest;
    answer: { [name: string]: unknown };
  };
  /** Return a page of all that the store holds of an owner, as it holds it; for the operator */
  export_tenant: {
    fields: TenantPartRequest;
    answer: { [name: string]: unknown };
  };
  /** Delete an owner for good, with keys, audit log and data keys; for the operator */
  delete_tenant: {
    fields: TenantDeletionRequest;
    answer: { [name: string]: unknown };
  };
}

export type Place = "body" | "query" | "path";
export type Route = readonly [method: string, path: string, rest: Place, isRead: boolean];

/** Method, path, the part of the request that holds the other fields, and true if nothing is changed. */
export const ROUTES: { [Name in keyof Operations]: Route } = {
  capabilities: ["GET", "/ump/capabilities", "query", true],
  manifest: ["GET", "/.well-known/ump.json", "query", true],
  remember: ["POST", "/ump/remember", "body", false],
  recall: ["POST", "/ump/recall", "body", true],
  rehydrate: ["POST", "/ump/rehydrate", "body", true],
  list_memories: ["GET", "/ump/memories", "query", true],
  stats: ["GET", "/ump/stats", "query", true],
  get: ["GET", "/ump/memory/{id}", "query", true],
  history: ["GET", "/ump/memory/{id}/history", "query", true],
  feedback: ["POST", "/ump/feedback", "body", false],
  revise: ["POST", "/ump/revise", "body", false],
  forget: ["POST", "/ump/forget", "body", false],
  forget_many: ["POST", "/ump/forget_many", "body", false],
  audit: ["POST", "/ump/audit", "body", false],
  audit_verify: ["GET", "/ump/audit/verify", "query", true],
  recall_bare: ["POST", "/ump/recall/bare", "body", false],
  elsewhere: ["POST", "/ump/recall/elsewhere", "body", false],
  seen_as: ["GET", "/ump/memory/{id}/standards", "query", true],
  origins: ["GET", "/ump/memory/{id}/origins", "query", true],
  similar: ["GET", "/ump/memory/{id}/similar", "query", true],
  projects: ["GET", "/ump/projects", "query", true],
  short_ids: ["POST", "/ump/short_ids", "body", false],
  undo_last: ["POST", "/ump/undo", "path", false],
  redo_last: ["POST", "/ump/redo", "path", false],
  rules: ["GET", "/ump/rules", "query", true],
  set_rules: ["PUT", "/ump/rules", "body", false],
  changes: ["GET", "/ump/changes", "query", true],
  feed_position: ["GET", "/ump/changes/position", "query", true],
  feed_end: ["GET", "/ump/changes/end", "query", true],
  audit_prune: ["POST", "/ump/audit/prune", "body", false],
  export: ["GET", "/ump/export", "query", true],
  import_records: ["POST", "/ump/import", "body", false],
  imports: ["GET", "/ump/imports", "query", true],
  import_part: ["POST", "/ump/imports", "body", false],
  undo_import: ["POST", "/ump/imports/undo", "body", false],
  suspects: ["GET", "/ump/suspects", "query", true],
  suspects_beside: ["GET", "/ump/suspects/beside", "query", true],
  orders: ["GET", "/ump/orders", "query", true],
  allow_orders: ["POST", "/ump/orders/allow", "body", false],
  redact: ["POST", "/ump/redact", "body", false],
  verify: ["GET", "/ump/verify", "query", true],
  subscribe: ["GET", "/ump/subscribe", "query", true],
  grain_put: ["POST", "/oms/grains", "body", false],
  grain_get: ["GET", "/oms/grains/{address}", "query", true],
  grain_leave: ["GET", "/oms/grains/{address}/leaving", "query", true],
  grain_export: ["GET", "/oms/export", "query", true],
  grain_list: ["GET", "/oms/grains", "query", true],
  grain_search: ["POST", "/oms/grains/search", "body", true],
  grain_verification: ["POST", "/oms/grains/{address}/verification", "body", false],
  grain_hold: ["PUT", "/oms/grains/{address}/hold", "body", false],
  grain_release: ["DELETE", "/oms/grains/{address}/hold", "query", false],
  grain_supersede: ["POST", "/oms/grains/{address}/supersede", "body", false],
  grain_erase: ["DELETE", "/oms/grains/{address}", "query", false],
  user_erase: ["POST", "/oms/users/erase", "body", false],
  consents: ["GET", "/oms/consents", "query", true],
  cal: ["POST", "/cal", "body", false],
  cal_check: ["POST", "/cal/check", "body", true],
  cal_prepare: ["POST", "/cal/prepare", "body", false],
  cal_execute: ["POST", "/cal/execute", "body", false],
  cal_token: ["POST", "/cal/tokens", "body", false],
  cal_remove_template: ["DELETE", "/cal/templates/{name}", "query", false],
  cal_stream: ["POST", "/cal/stream", "body", true],
  cal_cancel: ["DELETE", "/cal/stream/{assembly_id}", "query", false],
  cal_capabilities: ["GET", "/cal/capabilities", "query", true],
  oams_store: ["PUT", "/v1/oams/memories/{namespace}/{key}", "body", false],
  oams_get: ["GET", "/v1/oams/memories/{namespace}/{key}", "query", true],
  oams_forget: ["DELETE", "/v1/oams/memories/{namespace}/{key}", "query", false],
  oams_list: ["GET", "/v1/oams/memories/{namespace}", "query", true],
  oams_export: ["GET", "/v1/oams/export/{namespace}", "query", true],
  oams_namespaces: ["GET", "/v1/oams/namespaces", "query", true],
  oams_batch_store: ["POST", "/v1/oams/memories/batch", "body", false],
  oams_recall: ["POST", "/v1/oams/recall", "body", true],
  oams_consolidate: ["POST", "/v1/oams/dreams", "body", false],
  oams_dreams: ["GET", "/v1/oams/dreams", "query", true],
  oams_undo_dream: ["DELETE", "/v1/oams/dreams/{run_id}", "query", false],
  list_tenants: ["GET", "/admin/tenants", "query", true],
  set_quota: ["POST", "/admin/tenants/quota", "body", false],
  export_tenant: ["POST", "/admin/tenants/export", "body", false],
  delete_tenant: ["POST", "/admin/tenants/delete", "body", false],
};
