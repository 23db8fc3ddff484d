/**
 * A client of a Memoranda server, the memory of AI agents, for TypeScript and JavaScript.
 *
 * It needs only `fetch`, so it runs in Node, Deno, Bun and browsers. It has the methods of the Python library.
 */
import { Grains } from "./grains.js";
import { Oams } from "./oams.js";
import type { Operations } from "./operations.js";
import { type CallOptions, type Cursor, dropUnset, type Fields, lines, type Options, pages, type Sent, Server } from "./server.js";
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
  SimilarAnswer,
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
export type { CallOptions, Options, Sent } from "./server.js";
export type * from "./types.js";

export type Kind = NewMemory["kind"];
export type Visibility = "private" | "shared" | "team" | "public";
/** An instant: a Date, or text in RFC 3339. */
export type When = Date | string;

/** The fields of a memory other than its text. */
export interface Remembered extends CallOptions {
  kind?: Kind;
  project?: string;
  /** The person it is about. */
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
  /** A reference to its source. */
  source?: string;
  structured?: { [name: string]: unknown };
}

/** The filters of a query, and hints for ranking. */
export interface Where extends CallOptions {
  owner?: string;
  project?: string;
  user?: string;
  agent?: string;
  session?: string;
  kind?: Kind | readonly Kind[];
  validAt?: When;
  knownAt?: When;
  /** Only memories with exactly this project, user, agent and session. */
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

/** The filters of a listing; every given field must match exactly. */
export interface Listed extends CallOptions {
  project?: string;
  user?: string;
  kind?: Kind | readonly Kind[];
  tags?: readonly string[];
  since?: When;
  limit?: number;
}

export interface Change extends CallOptions {
  text?: string;
  structured?: { [name: string]: unknown };
  validFrom?: When;
  /** "never" removes the end. */
  validTo?: When;
  confidence?: number;
  salience?: number;
}

export interface CalOptions extends CallOptions {
  /** The values of the query's parameters. */
  params?: Fields;
  /** The project in which the query starts. */
  namespace?: string;
  /** The cursor of the next page of an earlier answer. */
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
  /** Its position in the feed; pass it as `after` to continue. */
  place: number;
}

/** A record with its text at hand; `JSON.stringify` writes the record alone. */
export type Memory = MemoryRecord & { readonly text: string };
/** A memory that matches a query, with its score. */
export type Hit = RecallAnswer["results"][number] & { readonly id: string; readonly text: string };
/** One version of a memory. */
export type Version = HistoryAnswer["versions"][number] & { readonly id: string; readonly text: string };

/** A tag is a relation to something with this name. */
const TAG_PREFIX = "tag:";
/** Records per page of an export. */
const PAGE = 50;
/** Records per request of an import. */
const IMPORT_PART = 100;
/** The field with the original of a memory that another standard wrote. */
const NATIVE = "memoranda:native";
const CUT = "memoranda:cut";

/** The memories of one owner on a server; the key decides the owner. */
export class Memoranda {
  readonly url: string;
  /** The memories as OMS grains. */
  readonly grains: Grains;
  /** The memories through OAMS. */
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
    options: CallOptions = {},
  ): Promise<Operations[Name]["answer"]> {
    return this.#server.call(name, fields, options);
  }

  /** Remember a text; an equal memory is merged with it. */
  remember(text: string, fields: Remembered = {}): Promise<RememberAnswer> {
    const { kind = "semantic", structured, source } = fields;
    const targets = [...(fields.about ?? []), ...(fields.tags ?? []).map((tag) => TAG_PREFIX + tag)];
    const draft = {
      kind,
      body: dropUnset({ text, structured }),
      scope: pick(fields, "project", "user", "agent", "session", "visibility"),
      time: dropUnset({
        created: instantText(fields.created),
        observed: instantText(fields.observed),
        valid_from: instantText(fields.validFrom),
        valid_to: instantText(fields.validTo),
      }),
      lifecycle: pick(fields, "confidence", "salience"),
      consent: pick(fields, "retention"),
      relations: targets.map((target) => ({ type: "about", target })),
      provenance: dropUnset({ method: "library", source: source === undefined ? undefined : { ref: source } }),
    };
    return this.#server.call("remember", dropEmpty(draft), callOptions(fields));
  }

  /** Return the best memories for a query, best first, or none if none is relevant. */
  async recall(query: string, where: Where = {}): Promise<Hit[]> {
    const { results } = await this.#server.call("recall", question(query, where), callOptions(where));
    return results.map(withText);
  }

  /** Return memories as one framed, neutralised block for a model's context. */
  forPrompt(query: string, options: PromptOptions = {}): Promise<RehydrateAnswer> {
    const { maxChars: max_chars, budgetChars: budget_chars, ids } = options;
    return this.#server.call("rehydrate", { ...question(query, options), max_chars, budget_chars, ids }, callOptions(options));
  }

  /** Return a page of memories, last updated first. */
  async list(where: Listed = {}): Promise<Memory[]> {
    const found: Memory[] = [];
    const { limit = PAGE } = where;
    for await (const record of this.all({ ...where, limit: Math.min(limit, PAGE) })) {
      if (found.length >= limit) break;
      found.push(record);
    }
    return found;
  }

  /** Yield all memories, last updated first. */
  async *all(where: Listed = {}): AsyncGenerator<Memory> {
    const filters = pick(where, "project", "user", "kind", "tags", "limit");
    const fields = { limit: PAGE, ...filters, since: instantText(where.since) };
    const load = (cursor: Cursor) => this.#server.call("list_memories", { ...fields, cursor }, callOptions(where));
    for await (const page of pages<ListAnswer>(load)) yield* page.records.map(asMemory);
  }

  /** Return the owner and the counts of the memories. */
  stats(options: CallOptions = {}): Promise<StatsAnswer> {
    return this.#server.call("stats", {}, options);
  }

  /** Return one memory by its id, or by a unique prefix of it. */
  async get(id: string, options: CallOptions = {}): Promise<Memory> {
    return asMemory((await this.#server.call("get", { id }, options)).record);
  }

  /** Return all versions of a memory, oldest first. */
  async history(id: string, options: CallOptions = {}): Promise<Version[]> {
    const found: Version[] = [];
    const load = (cursor: Cursor) => this.#server.call("history", { id, cursor }, options);
    for await (const page of pages<HistoryAnswer>(load)) found.push(...page.versions.map(withText));
    return found;
  }

  /** Write the next version of a memory. Missing fields stay unchanged. */
  async revise(id: string, change: string | Change): Promise<ReviseAnswer> {
    const { text, structured, validFrom, validTo, confidence, salience }: Change =
      typeof change === "string" ? { text: change } : change;
    const options = typeof change === "string" ? {} : callOptions(change);
    const ends = validTo === "never" ? { valid_to: null } : dropUnset({ valid_to: instantText(validTo) });
    const patch: { [name: string]: unknown } = {
      time: { ...dropUnset({ valid_from: instantText(validFrom) }), ...ends },
      lifecycle: dropUnset({ confidence, salience }),
    };
    if (text !== undefined || structured !== undefined) {
      // UMP replaces the complete body, so a new text alone would lose the structured data.
      const body = (await this.get(id, options)).body;
      const { [NATIVE]: _, [CUT]: __, ...kept } = body.structured ?? {};
      patch["body"] = dropEmpty({ text: body.text, structured: kept, ...dropUnset({ text, structured }) });
    }
    return this.#server.call("revise", { id, patch: dropEmpty(patch) }, options);
  }

  /** Forget a memory, or erase it permanently. */
  async forget(
    id: string,
    options: CallOptions & { reason?: string; hard?: boolean } = {},
  ): Promise<ForgetAnswer["result"]> {
    const { reason = "", hard = false } = options;
    return (await this.#server.call("forget", { id, reason, hard }, callOptions(options))).result;
  }

  /** Report how a recalled memory was used. */
  async feedback(
    id: string,
    outcome: "followed" | "overridden" | "ignored" | "contradicted",
    options: CallOptions & { session?: string } = {},
  ): Promise<void> {
    await this.#server.call("feedback", { id, outcome, session: options.session }, callOptions(options));
  }

  /** Run a query in CAL. */
  cal(query: string | Fields, options: CalOptions = {}): Promise<CalAnswer> {
    return this.#server.call("cal", calFields(query, options), callOptions(options));
  }

  /** Check a query, and return its first error. */
  calCheck(query: string | Fields, options: CallOptions & { params?: Fields } = {}): Promise<CalCheckAnswer> {
    return this.#server.call("cal_check", { query, params: options.params }, callOptions(options));
  }

  /** Prepare a query and describe its effects; the token executes it once. */
  calPrepare(query: string | Fields, options: CalOptions = {}): Promise<CalPrepareAnswer> {
    return this.#server.call("cal_prepare", calFields(query, options), callOptions(options));
  }

  /** Execute a prepared query. */
  calExecute(token: string, options: CallOptions = {}): Promise<CalAnswer> {
    return this.#server.call("cal_execute", { token }, options);
  }

  /** Yield the events of an ASSEMBLE, until the signal ends it. */
  async *calStream(query: string | Fields, options: CalOptions = {}): AsyncGenerator<CalEvent> {
    const call = { ...callOptions(options), headers: { accept: "application/x-ndjson" } };
    const answer = await this.#server.open("cal_stream", calFields(query, options), call);
    for await (const line of lines(answer)) if (line) yield JSON.parse(line) as CalEvent;
  }

  /** List memories with likely secrets, which the texts omit. */
  suspects(options: CallOptions = {}): Promise<SuspectsAnswer["suspects"]> {
    return this.#allSuspects("suspects", options);
  }

  /** List memories that look like prompt injection. */
  orders(options: CallOptions = {}): Promise<SuspectsAnswer["suspects"]> {
    return this.#allSuspects("orders", options);
  }

  /** Mark a memory as a false alarm; it is not listed again until its text changes. */
  async allowOrders(id: string, options: CallOptions = {}): Promise<void> {
    await this.#server.call("allow_orders", { id }, options);
  }

  async #allSuspects(name: "suspects" | "orders", options: CallOptions): Promise<SuspectsAnswer["suspects"]> {
    const found: SuspectsAnswer["suspects"] = [];
    const load = (cursor: Cursor) => this.#server.call(name, { cursor }, options);
    for await (const page of pages<SuspectsAnswer>(load)) found.push(...page.suspects);
    return found;
  }

  /** Return one memory as a document of each standard. */
  async seenAs(id: string, options: CallOptions = {}): Promise<StandardsAnswer["standards"]> {
    return (await this.#server.call("seen_as", { id }, options)).standards;
  }

  /** Return the sources of a memory, the memories derived from it, and how many would be erased with it. */
  origins(id: string, options: CallOptions = {}): Promise<OriginsAnswer> {
    return this.#server.call("origins", { id }, options);
  }

  /** List the memories that state nearly the same as one, which it may replace: at most three. */
  async similar(id: string, options: CallOptions = {}): Promise<SimilarAnswer["similar"]> {
    return (await this.#server.call("similar", { id }, options)).similar;
  }

  /** List the projects that have or had memories. */
  async projects(options: CallOptions = {}): Promise<string[]> {
    return (await this.#server.call("projects", {}, options)).projects;
  }

  /** Undo the last change. */
  undoLast(options: CallOptions = {}): Promise<UndoAnswer> {
    return this.#server.call("undo_last", {}, options);
  }

  /** Return the rules set by the owner. */
  rules(options: CallOptions = {}): Promise<RulesAnswer> {
    return this.#server.call("rules", {}, options);
  }

  /** Set the rules of the owner. */
  setRules(rules: Partial<RulesAnswer>, options: CallOptions = {}): Promise<RulesAnswer> {
    return this.#server.call("set_rules", rules as Fields, options);
  }

  /** Return a page of the change feed, from its beginning or after a position. */
  changes(where: CallOptions & { after?: number; project?: string } = {}): Promise<ChangesAnswer> {
    return this.#server.call("changes", { project: where.project, after: where.after ?? 0 }, callOptions(where));
  }

  /** Remove likely secrets from a memory permanently, and return its new id. */
  async redact(id: string, options: CallOptions = {}): Promise<string> {
    return (await this.#server.call("redact", { id }, options)).id;
  }

  /** Yield every record that may be exported, in the order of writing; `onReport` gets a report for each page. */
  async *export(
    options: CallOptions & { project?: string; history?: boolean; onReport?: (report: Report) => void } = {},
  ): AsyncGenerator<MemoryRecord> {
    const { project, history, onReport } = options;
    const load = (cursor: Cursor) => this.#server.call("export", { project, history, cursor }, callOptions(options));
    for await (const page of pages<ExportAnswer>(load)) {
      onReport?.(page.report);
      yield* page.records as MemoryRecord[];
    }
  }

  /** Import records of `export`; known records change nothing. Returns a report for each part. */
  async importRecords(
    records: Iterable<object> | AsyncIterable<object>,
    options: CallOptions & { restore?: boolean } = {},
  ): Promise<Report[]> {
    const reports: Report[] = [];
    let batch: object[] = [];
    let first = 1;
    const flush = async () => {
      const fields = { records: batch, first, restore: options.restore };
      if (batch.length) reports.push(await this.#server.call("import_records", fields, callOptions(options)));
      first += batch.length;
      batch = [];
    };
    for await (const record of records) {
      batch.push(record);
      if (batch.length === IMPORT_PART) await flush();
    }
    await flush();
    return reports;
  }

  /** List the imports that can be undone, newest first. */
  async imports(options: CallOptions = {}): Promise<ImportsAnswer["imports"]> {
    return (await this.#server.call("imports", {}, options)).imports;
  }

  /** Undo an import, by default the last. */
  undoImport(options: CallOptions & { id?: string } = {}): Promise<UndoImportAnswer> {
    return this.#server.call("undo_import", { id: options.id }, callOptions(options));
  }

  /** Check every signature, the audit chain and the database. */
  verify(options: CallOptions = {}): Promise<VerifyAnswer> {
    return this.#server.call("verify", {}, options);
  }

  /** Consolidate a namespace with a strategy: preview, or write with `dryRun: false`. */
  async consolidate(
    strategy: OamsDream["strategy"],
    options: CallOptions & { namespace?: string; dryRun?: boolean; limit?: number; budget?: number } = {},
  ): Promise<OamsDream> {
    const { namespace, dryRun = true, limit, budget } = options;
    const fields = { strategy, namespace: await this.oams.namespace(namespace, callOptions(options)), dry_run: dryRun, limit, budget };
    return this.#server.call("oams_consolidate", fields as Fields, callOptions(options));
  }

  /** Undo a run of `consolidate`. */
  undo(runId: string, options: CallOptions = {}): Promise<OamsUndone> {
    return this.#server.call("oams_undo_dream", { run_id: runId }, options);
  }

  /** Yield changes until the signal ends it; `after` continues after a position of the feed. */
  async *subscribe(where: CallOptions & { project?: string; after?: number } = {}): AsyncGenerator<ChangeEvent> {
    const { project, after, signal } = where;
    const call = { ...callOptions(where), headers: { accept: "text/event-stream" } };
    const answer = await this.#server.open("subscribe", { project, after }, call);
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

/** Return the options of a call, without the fields of its request. */
function callOptions({ signal, timeoutMs, retries }: CallOptions): CallOptions {
  return { signal, timeoutMs, retries };
}

function calFields(query: string | Fields, { params, namespace, cursor }: CalOptions): Fields {
  return { query, params, namespace, cursor };
}

/** Add the id and the text of its record to an entry. They are not enumerable, so that copies hold the record alone. */
function withText<Entry extends { record: MemoryRecord }>(
  entry: Entry,
): Entry & { readonly id: string; readonly text: string } {
  const { id, body } = entry.record;
  return Object.defineProperties(entry, { id: { value: id }, text: { value: body.text } }) as Entry & {
    readonly id: string;
    readonly text: string;
  };
}

function asMemory(record: MemoryRecord): Memory {
  return Object.defineProperty(record, "text", { value: record.body.text }) as Memory;
}

function question(query: string, where: Where): RecallRequest {
  const { kind, limit, strict } = where;
  return dropEmpty({
    query,
    limit,
    scope: pick(where, "owner", "project", "user", "agent", "session"),
    filter: dropUnset({
      kind,
      valid_at: instantText(where.validAt),
      known_at: instantText(where.knownAt),
      scope: strict === true ? "strict" : undefined,
    }),
    ranking_hints: dropUnset({
      asked_at: instantText(where.askedAt),
      zone: where.zone,
      explain: where.explain,
      words_only: where.wordsOnly,
      rerank: where.rerank,
    }),
  }) as unknown as RecallRequest;
}

function instantText(when: When | undefined): string | undefined {
  return when instanceof Date ? when.toISOString() : when;
}

/** Return the fields without empty objects. */
function dropEmpty(fields: Fields): Fields {
  const isEmpty = (value: unknown) => typeof value === "object" && value !== null && Object.keys(value).length === 0;
  return Object.fromEntries(Object.entries(dropUnset(fields)).filter(([, value]) => !isEmpty(value)));
}

function pick<From extends object>(from: From, ...names: (keyof From)[]): Fields {
  return dropUnset(Object.fromEntries(names.map((name) => [name, from[name]])));
}
