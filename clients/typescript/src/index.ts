/**
 * The memory of AI agents, from TypeScript and JavaScript: a client of a Memoranda server.
 *
 * No dependencies; it needs `fetch`, so it runs in Node, Deno, Bun and browsers. The verbs are those of the Python library.
 */
import { Grains } from "./grains.js";
import { Oams } from "./oams.js";
import type { Operations } from "./operations.js";
import { type Fields, given, lines, type Options, type Sent, Server } from "./server.js";
import type {
  CalAnswer,
  CalCheckAnswer,
  CalPrepareAnswer,
  ChangesAnswer,
  ExportAnswer,
  ForgetAnswer,
  HistoryAnswer,
  ImportsAnswer,
  ListAnswer,
  MemoryRecord,
  NewMemory,
  OamsDream,
  OamsUndone,
  OriginsAnswer,
  RecallAnswer,
  RecallRequest,
  RehydrateAnswer,
  RememberAnswer,
  Report,
  ReviseAnswer,
  RulesAnswer,
  StandardsAnswer,
  StatsAnswer,
  SuspectsAnswer,
  UndoAnswer,
  UndoImportAnswer,
  VerifyAnswer,
} from "./types.js";

export * from "./errors.js";
export type { Grains } from "./grains.js";
export type { Oams, OamsFields } from "./oams.js";
export type { Operations } from "./operations.js";
export type { Options, Sent } from "./server.js";
export type * from "./types.js";

export type Kind = NewMemory["kind"];
export type Visibility = "private" | "shared" | "team" | "public";
/** A moment: a Date, or text in RFC 3339. */
export type When = Date | string;

/** What is remembered beside a text. */
export interface Beside {
  kind?: Kind;
  project?: string;
  /** Whom it is about. */
  user?: string;
  agent?: string;
  session?: string;
  visibility?: Visibility;
  tags?: readonly string[];
  about?: readonly string[];
  created?: When;
  observed?: When;
  validFrom?: When;
  validTo?: When;
  /** Erase it after this ISO 8601 duration, such as P30D. */
  retention?: string;
  confidence?: number;
  salience?: number;
  /** A reference to where it comes from. */
  source?: string;
  structured?: { [name: string]: unknown };
}

/** What narrows a question, and how its answers are ranked. */
export interface Where {
  owner?: string;
  project?: string;
  user?: string;
  agent?: string;
  session?: string;
  kind?: Kind | readonly Kind[];
  validAt?: When;
  knownAt?: When;
  /** Only what names exactly this project, user, agent and session. */
  strict?: boolean;
  limit?: number;
  askedAt?: When;
  zone?: string;
  explain?: boolean;
  wordsOnly?: boolean;
  rerank?: boolean;
}

export interface PromptOptions extends Where {
  maxChars?: number;
  budgetChars?: number;
  ids?: boolean;
}

/** Which memories are listed; every field given must match exactly. */
export interface Listed {
  project?: string;
  user?: string;
  kind?: Kind | readonly Kind[];
  tags?: readonly string[];
  since?: When;
  limit?: number;
}

export interface Change {
  text?: string;
  structured?: { [name: string]: unknown };
  validFrom?: When;
  /** "never" lifts an end. */
  validTo?: When;
  confidence?: number;
  salience?: number;
}

export interface CalOptions {
  namespace?: string;
  cursor?: string;
}

export interface CalEvent {
  type: string;
  assembly_id: string;
  seq: number;
  [name: string]: unknown;
}

export interface ChangeEvent {
  type: "created" | "merged" | "revised" | "tombstoned";
  id: string;
  record: MemoryRecord;
  /** Its place in the feed: where to go on after. */
  place: number;
}

export type Hit = RecallAnswer["results"][number];
export type Version = HistoryAnswer["versions"][number];

/** A tag is a relation to something with this name. */
const TAG_PREFIX = "tag:";
/** As many as a server gives at once. */
const PAGE = 50;
/** As many as a server takes at once. */
const IMPORTED = 100;
/** Beside the record, the original of a memory that another standard wrote. */
const NATIVE = "memoranda:native";
const CUT = "memoranda:cut";

/** One person's memory on a server; the key decides whose. */
export class Memoranda {
  readonly url: string;
  /** The same memory through OMS. */
  readonly grains: Grains;
  /** The same memory through OAMS. */
  readonly oams: Oams;
  readonly #server: Server;

  constructor(url: string, options: Options = {}) {
    this.#server = new Server(url, options);
    this.url = this.#server.url;
    this.grains = new Grains(this.#server);
    this.oams = new Oams(this.#server);
  }

  /** Call any operation of the server by its name in the OpenAPI document, with its fields. */
  call<Name extends keyof Operations>(
    name: Name,
    fields: Sent<Operations[Name]["fields"]> = {},
  ): Promise<Operations[Name]["answer"]> {
    return this.#server.call(name, fields);
  }

  /** Remember a text; the same fact again is merged with what is known. */
  remember(text: string, beside: Beside = {}): Promise<RememberAnswer> {
    const { kind = "semantic", structured, source } = beside;
    const targets = [...(beside.about ?? []), ...(beside.tags ?? []).map((tag) => TAG_PREFIX + tag)];
    const draft = {
      kind,
      body: given({ text, structured }),
      scope: pick(beside, "project", "user", "agent", "session", "visibility"),
      time: given({
        created: moment(beside.created),
        observed: moment(beside.observed),
        valid_from: moment(beside.validFrom),
        valid_to: moment(beside.validTo),
      }),
      lifecycle: pick(beside, "confidence", "salience"),
      consent: pick(beside, "retention"),
      relations: targets.map((target) => ({ type: "about", target })),
      provenance: given({ method: "library", source: source === undefined ? undefined : { ref: source } }),
    };
    return this.#server.call("remember", filled(draft));
  }

  /** The best memories for a question, best first; none where none answers. */
  async recall(query: string, where: Where = {}): Promise<Hit[]> {
    return (await this.#server.call("recall", question(query, where))).results;
  }

  /** Recalled memories as one framed, neutralised block for a model's context. */
  forPrompt(query: string, options: PromptOptions = {}): Promise<RehydrateAnswer> {
    const { maxChars: max_chars, budgetChars: budget_chars, ids } = options;
    return this.#server.call("rehydrate", { ...question(query, options), max_chars, budget_chars, ids });
  }

  /** The latest memories, last updated first. */
  async list(where: Listed = {}): Promise<MemoryRecord[]> {
    const found: MemoryRecord[] = [];
    const { limit = PAGE } = where;
    for await (const record of this.all({ ...where, limit: Math.min(limit, PAGE) })) {
      if (found.length >= limit) break;
      found.push(record);
    }
    return found;
  }

  /** All memories, last updated first. */
  async *all(where: Listed = {}): AsyncGenerator<MemoryRecord> {
    let cursor: string | null = null;
    do {
      const fields = { limit: PAGE, ...(where as Fields), since: moment(where.since), cursor };
      const page: ListAnswer = await this.#server.call("list_memories", fields);
      yield* page.records;
      cursor = page.next_cursor;
    } while (cursor !== null);
  }

  /** Whose memory this is, and how much is in it. */
  stats(): Promise<StatsAnswer> {
    return this.#server.call("stats");
  }

  /** One memory by its id, or by the beginning of it. */
  async get(id: string): Promise<MemoryRecord> {
    return (await this.#server.call("get", { id })).record;
  }

  /** All versions of a memory, oldest first. */
  async history(id: string): Promise<Version[]> {
    const found: Version[] = [];
    let cursor: string | undefined;
    do {
      const page: HistoryAnswer = await this.#server.call("history", { id, cursor });
      found.push(...page.versions);
      cursor = page.next_cursor;
    } while (cursor !== undefined);
    return found;
  }

  /** Write the next version of a memory. What is not said stays. */
  async revise(id: string, change: string | Change): Promise<ReviseAnswer> {
    const { text, structured, validFrom, validTo, confidence, salience }: Change =
      typeof change === "string" ? { text: change } : change;
    const ends = validTo === "never" ? { valid_to: null } : given({ valid_to: moment(validTo) });
    const patch: { [name: string]: unknown } = {
      time: { ...given({ valid_from: moment(validFrom) }), ...ends },
      lifecycle: given({ confidence, salience }),
    };
    if (text !== undefined || structured !== undefined) {
      // UMP replaces a body as a whole, so that a new wording alone would lose the data beside it.
      const body = (await this.get(id)).body;
      const { [NATIVE]: _, [CUT]: __, ...kept } = body.structured ?? {};
      patch["body"] = filled({ text: body.text, structured: kept, ...given({ text, structured }) });
    }
    return this.#server.call("revise", { id, patch: filled(patch) });
  }

  /** Tombstone a memory, or erase it for good. */
  async forget(id: string, options: { reason?: string; hard?: boolean } = {}): Promise<ForgetAnswer["result"]> {
    const { reason = "", hard = false } = options;
    return (await this.#server.call("forget", { id, reason, hard })).result;
  }

  /** Say what became of a recalled memory. */
  async feedback(
    id: string,
    outcome: "followed" | "overridden" | "ignored" | "contradicted",
    session?: string,
  ): Promise<void> {
    await this.#server.call("feedback", { id, outcome, session });
  }

  /** Ask in CAL, the query language of memory. */
  cal(query: string | Fields, params?: Fields, options: CalOptions = {}): Promise<CalAnswer> {
    return this.#server.call("cal", { query, params, ...options });
  }

  /** Whether this is a query, and if not, the first thing wrong with it. */
  calCheck(query: string | Fields, params?: Fields): Promise<CalCheckAnswer> {
    return this.#server.call("cal_check", { query, params });
  }

  /** Fix a query and say what it would do; its token executes it, once. */
  calPrepare(query: string | Fields, params?: Fields, options: CalOptions = {}): Promise<CalPrepareAnswer> {
    return this.#server.call("cal_prepare", { query, params, ...options });
  }

  /** Run what was prepared. */
  calExecute(token: string): Promise<CalAnswer> {
    return this.#server.call("cal_execute", { token });
  }

  /** An ASSEMBLE as events, as they happen, until the signal ends it. */
  async *calStream(
    query: string | Fields,
    params?: Fields,
    options: CalOptions = {},
    signal?: AbortSignal,
  ): AsyncGenerator<CalEvent> {
    const headers = { accept: "application/x-ndjson" };
    const answer = await this.#server.open("cal_stream", { query, params, ...options }, { headers, signal });
    for await (const line of lines(answer)) if (line) yield JSON.parse(line) as CalEvent;
  }

  /** Memories that look as if they held a secret, without it. */
  suspects(): Promise<SuspectsAnswer["suspects"]> {
    return this.#suspected("suspects");
  }

  /** Memories that read as if they gave orders to a model. */
  orders(): Promise<SuspectsAnswer["suspects"]> {
    return this.#suspected("orders");
  }

  /** Say that a memory may read as if it gave orders: it is not listed again while it says the same. */
  async allowOrders(id: string): Promise<void> {
    await this.#server.call("allow_orders", { id });
  }

  async #suspected(name: "suspects" | "orders"): Promise<SuspectsAnswer["suspects"]> {
    const found: SuspectsAnswer["suspects"] = [];
    let cursor: string | null = null;
    do {
      const page: SuspectsAnswer = await this.#server.call(name, { cursor });
      found.push(...page.suspects);
      cursor = page.next_cursor;
    } while (cursor !== null);
    return found;
  }

  /** One memory as each standard shows it. */
  async seenAs(id: string): Promise<StandardsAnswer["standards"]> {
    return (await this.#server.call("seen_as", { id })).standards;
  }

  /** What a memory was made from, what was made from it, and how many go with it when it is erased. */
  origins(id: string): Promise<OriginsAnswer> {
    return this.#server.call("origins", { id });
  }

  /** The projects in which there is or was anything. */
  async projects(): Promise<string[]> {
    return (await this.#server.call("projects")).projects;
  }

  /** Take back the last change. */
  undoLast(): Promise<UndoAnswer> {
    return this.#server.call("undo_last");
  }

  /** What the owner asks for beyond what the server does. */
  rules(): Promise<RulesAnswer> {
    return this.#server.call("rules");
  }

  /** Ask for something else from now on. */
  setRules(rules: Partial<RulesAnswer>): Promise<RulesAnswer> {
    return this.#server.call("set_rules", rules as Fields);
  }

  /** A page of the change feed, after a place in it. */
  changes(after = 0, where: { project?: string } = {}): Promise<ChangesAnswer> {
    return this.#server.call("changes", { ...where, after });
  }

  /** Take out of a memory what looks like a secret, for good; the id that it has now. */
  async redact(id: string): Promise<string> {
    return (await this.#server.call("redact", { id })).id;
  }

  /** Every record that may leave, in the order written; `onReport` is told what stays behind, page by page. */
  async *export(
    options: { project?: string; history?: boolean; onReport?: (report: Report) => void } = {},
  ): AsyncGenerator<MemoryRecord> {
    const { project, history, onReport } = options;
    let cursor: string | null = null;
    do {
      const page: ExportAnswer = await this.#server.call("export", { project, history, cursor });
      onReport?.(page.report);
      yield* page.records as MemoryRecord[];
      cursor = page.next_cursor;
    } while (cursor !== null);
  }

  /** Take records in, as `export` gives them; what is here already changes nothing. A report for each part. */
  async importRecords(
    records: Iterable<object> | AsyncIterable<object>,
    options: { restore?: boolean } = {},
  ): Promise<Report[]> {
    const reports: Report[] = [];
    let batch: object[] = [];
    let first = 1;
    const flush = async () => {
      if (batch.length) reports.push(await this.#server.call("import_records", { records: batch, first, ...options }));
      first += batch.length;
      batch = [];
    };
    for await (const record of records) {
      batch.push(record);
      if (batch.length === IMPORTED) await flush();
    }
    await flush();
    return reports;
  }

  /** The imports that can be taken back, the last first. */
  async imports(): Promise<ImportsAnswer["imports"]> {
    return (await this.#server.call("imports")).imports;
  }

  /** Take back an import, the last unless it is named. */
  undoImport(id?: string): Promise<UndoImportAnswer> {
    return this.#server.call("undo_import", { id });
  }

  /** Check every signature, the audit chain and the database. */
  verify(): Promise<VerifyAnswer> {
    return this.#server.call("verify");
  }

  /** What a strategy makes of a namespace: shown, or written too (`dryRun: false`). */
  async consolidate(
    strategy: OamsDream["strategy"],
    options: { namespace?: string; dryRun?: boolean; limit?: number; budget?: number } = {},
  ): Promise<OamsDream> {
    const { namespace, dryRun = true, limit, budget } = options;
    const fields = { strategy, namespace: await this.oams.namespace(namespace), dry_run: dryRun, limit, budget };
    return this.#server.call("oams_consolidate", fields as Fields);
  }

  /** Take back what a run of `consolidate` wrote. */
  undo(runId: string): Promise<OamsUndone> {
    return this.#server.call("oams_undo_dream", { run_id: runId });
  }

  /** Changes as they happen, until the signal ends it; `after` goes on after a place in the feed. */
  async *subscribe(
    where: { project?: string; after?: number } = {},
    signal?: AbortSignal,
  ): AsyncGenerator<ChangeEvent> {
    const headers = { accept: "text/event-stream" };
    const answer = await this.#server.open("subscribe", where, { headers, signal });
    let block: { [name: string]: string } = {};
    try {
      for await (const line of lines(answer)) {
        const [, name, value] = /^(\w+): ?(.*)$/.exec(line) ?? [];
        if (name !== undefined) block[name] = name === "data" && block["data"] ? `${block["data"]}\n${value}` : value ?? "";
        if (line !== "") continue;
        if (block["data"]) yield { ...JSON.parse(block["data"]), place: Number(block["id"] ?? 0) };
        block = {};
      }
    } catch (error) {
      if (signal?.aborted !== true) throw error;
    }
  }
}

function question(query: string, where: Where): RecallRequest {
  const { kind, limit, strict } = where;
  return filled({
    query,
    limit,
    scope: pick(where, "owner", "project", "user", "agent", "session"),
    filter: given({
      kind,
      valid_at: moment(where.validAt),
      known_at: moment(where.knownAt),
      scope: strict === true ? "strict" : undefined,
    }),
    ranking_hints: given({
      asked_at: moment(where.askedAt),
      zone: where.zone,
      explain: where.explain,
      words_only: where.wordsOnly,
      rerank: where.rerank,
    }),
  }) as unknown as RecallRequest;
}

function moment(when: When | undefined): string | undefined {
  return when instanceof Date ? when.toISOString() : when;
}

/** The same, without parts in which nothing was said. */
function filled(fields: Fields): Fields {
  const isEmpty = (value: unknown) => typeof value === "object" && value !== null && Object.keys(value).length === 0;
  return Object.fromEntries(Object.entries(given(fields)).filter(([, value]) => !isEmpty(value)));
}

function pick<From extends object>(from: From, ...names: (keyof From)[]): Fields {
  return given(Object.fromEntries(names.map((name) => [name, from[name]])));
}
