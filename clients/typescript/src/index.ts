/**
 * The memory of AI agents, from TypeScript and JavaScript: a client of a Memoranda server.
 *
 * No dependencies; it needs `fetch`, so it runs in Node, Deno, Bun and browsers. The verbs are those of the Python library.
 */
import { errorOf, StoreUnavailable } from "./errors.js";
import type {
  CalAnswer,
  ForgetAnswer,
  HistoryAnswer,
  ListAnswer,
  MemoryRecord,
  NewMemory,
  RecallAnswer,
  RecallRequest,
  RehydrateAnswer,
  RememberAnswer,
  ReviseAnswer,
  ReviseRequest,
  StatsAnswer,
} from "./types.js";

export * from "./errors.js";
export type * from "./types.js";

export type Kind = NewMemory["kind"];
export type Visibility = "private" | "shared" | "team" | "public";
/** A moment: a Date, or text in RFC 3339. */
export type When = Date | string;

export interface Options {
  /** An API key (`mk_…`) or a capability token (`umpcap.…`). */
  key?: string;
  /** Another `fetch` than the platform's own. */
  fetch?: typeof fetch;
}

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
  validTo?: When;
  confidence?: number;
  salience?: number;
}

export interface CalOptions {
  namespace?: string;
  cursor?: string;
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
/** Beside the record, the original of a memory that another standard wrote. */
const NATIVE = "memoranda:native";

/** One person's memory on a server; the key decides whose. */
export class Memoranda {
  readonly url: string;
  readonly #headers: { [name: string]: string };
  readonly #fetch: typeof fetch;

  constructor(url: string, options: Options = {}) {
    this.url = url.replace(/\/$/, "");
    this.#fetch = options.fetch ?? ((...given) => fetch(...given));
    this.#headers = { accept: "application/json" };
    if (options.key !== undefined) this.#headers["authorization"] = `Bearer ${options.key}`;
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
    return this.#ask("POST", "/ump/remember", filled(draft));
  }

  /** The best memories for a question, best first; none where none answers. */
  async recall(query: string, where: Where = {}): Promise<Hit[]> {
    return (await this.#ask<RecallAnswer>("POST", "/ump/recall", question(query, where))).results;
  }

  /** Recalled memories as one framed, neutralised block for a model's context. */
  forPrompt(query: string, options: PromptOptions = {}): Promise<RehydrateAnswer> {
    const { maxChars: max_chars, budgetChars: budget_chars, ids } = options;
    const asked = { ...question(query, options), ...given({ max_chars, budget_chars, ids }) };
    return this.#ask("POST", "/ump/rehydrate", asked);
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
      const asked = { limit: PAGE, ...where, since: moment(where.since), cursor };
      const page: ListAnswer = await this.#ask("GET", `/ump/memories${encoded(asked)}`);
      yield* page.records;
      cursor = page.next_cursor;
    } while (cursor !== null);
  }

  /** Whose memory this is, and how much is in it. */
  stats(): Promise<StatsAnswer> {
    return this.#ask("GET", "/ump/stats");
  }

  /** One memory by its id, or by the beginning of it. */
  async get(id: string): Promise<MemoryRecord> {
    return (await this.#ask<{ record: MemoryRecord }>("GET", memory(id))).record;
  }

  /** All versions of a memory, oldest first. */
  async history(id: string): Promise<Version[]> {
    const found: Version[] = [];
    let cursor: string | undefined;
    do {
      const page: HistoryAnswer = await this.#ask("GET", `${memory(id)}/history${encoded({ cursor })}`);
      found.push(...page.versions);
      cursor = page.next_cursor;
    } while (cursor !== undefined);
    return found;
  }

  /** Write the next version of a memory. What is not said stays. */
  async revise(id: string, change: string | Change): Promise<ReviseAnswer> {
    const { text, structured, validFrom, validTo, confidence, salience }: Change =
      typeof change === "string" ? { text: change } : change;
    const patch: { [name: string]: unknown } = {
      time: given({ valid_from: moment(validFrom), valid_to: moment(validTo) }),
      lifecycle: given({ confidence, salience }),
    };
    if (text !== undefined || structured !== undefined) {
      // UMP replaces a body as a whole, so that a new wording alone would lose the data beside it.
      const body = (await this.get(id)).body;
      const { [NATIVE]: _, ...kept } = body.structured ?? {};
      patch["body"] = filled({ text: body.text, structured: kept, ...given({ text, structured }) });
    }
    const asked = { id, patch: filled(patch) } satisfies { id: string; patch: ReviseRequest["patch"] };
    return this.#ask("POST", "/ump/revise", asked);
  }

  /** Tombstone a memory, or erase it for good. */
  async forget(id: string, options: { reason?: string; hard?: boolean } = {}): Promise<ForgetAnswer["result"]> {
    const { reason = "", hard = false } = options;
    return (await this.#ask<ForgetAnswer>("POST", "/ump/forget", { id, reason, hard })).result;
  }

  /** Say what became of a recalled memory. */
  async feedback(
    id: string,
    outcome: "followed" | "overridden" | "ignored" | "contradicted",
    session?: string,
  ): Promise<void> {
    await this.#ask("POST", "/ump/feedback", given({ id, outcome, session }));
  }

  /** Ask in CAL, the query language of memory. */
  cal(query: string, params?: { [name: string]: unknown }, options: CalOptions = {}): Promise<CalAnswer> {
    return this.#ask("POST", "/cal", given({ query, params, ...options }));
  }

  /** Changes as they happen, until the signal ends it; `after` goes on after a place in the feed. */
  async *subscribe(
    where: { project?: string; after?: number } = {},
    signal?: AbortSignal,
  ): AsyncGenerator<ChangeEvent> {
    const answer = await this.#send("GET", `/ump/subscribe${encoded(where)}`, undefined, "text/event-stream", signal);
    let rest = "";
    try {
      for await (const text of texts(answer)) {
        const blocks = (rest + text).split(/\r?\n\r?\n/);
        rest = blocks.pop() ?? "";
        for (const block of blocks) {
          const lines = block.split(/\r?\n/).map((line) => /^(\w+): ?(.*)$/.exec(line));
          const values = (name: string) => lines.filter((line) => line?.[1] === name).map((line) => line?.[2] ?? "");
          const data = values("data").join("\n");
          if (data) yield { ...JSON.parse(data), place: Number(values("id")[0] ?? 0) };
        }
      }
    } catch (error) {
      if (signal?.aborted !== true) throw error;
    }
  }

  async #ask<Answer>(method: string, path: string, body?: unknown): Promise<Answer> {
    const answer = await this.#send(method, path, body, "application/json");
    return (await answer.json()) as Answer;
  }

  async #send(method: string, path: string, body: unknown, accept: string, signal?: AbortSignal): Promise<Response> {
    const headers: { [name: string]: string } = { ...this.#headers, accept };
    const sent: RequestInit = { method, headers, signal: signal ?? null };
    if (body !== undefined) {
      headers["content-type"] = "application/json";
      sent.body = JSON.stringify(body);
    }
    let answer: Response;
    try {
      answer = await this.#fetch(this.url + path, sent);
    } catch (error) {
      if (signal?.aborted === true) throw error;
      throw new StoreUnavailable("unavailable", `${this.url} does not answer: ${String(error)}`, 0);
    }
    if (answer.ok) return answer;
    const document: unknown = await answer.json().catch(() => null);
    throw errorOf(answer.status, document, answer.headers.get("retry-after"));
  }
}

async function* texts(answer: Response): AsyncGenerator<string> {
  if (answer.body === null) return;
  const reader = answer.body.getReader();
  const decoder = new TextDecoder();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield decoder.decode(value, { stream: true });
    }
  } finally {
    await reader.cancel().catch(() => undefined);
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

function memory(id: string): string {
  return `/ump/memory/${encodeURIComponent(id)}`;
}

function moment(when: When | undefined): string | undefined {
  return when instanceof Date ? when.toISOString() : when;
}

type Fields = { [name: string]: unknown };

/** What was said, without what was not. */
function given(fields: Fields): Fields {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined && value !== null));
}

/** The same, without parts in which nothing was said. */
function filled(fields: Fields): Fields {
  const isEmpty = (value: unknown) => typeof value === "object" && value !== null && Object.keys(value).length === 0;
  return Object.fromEntries(Object.entries(given(fields)).filter(([, value]) => !isEmpty(value)));
}

function pick<From extends object>(from: From, ...names: (keyof From)[]): Fields {
  return given(Object.fromEntries(names.map((name) => [name, from[name]])));
}

function encoded(fields: Fields): string {
  const pairs = Object.entries(given(fields)).flatMap(([name, value]) =>
    (Array.isArray(value) ? value : [value]).map((each) => [name, String(each)]),
  );
  return pairs.length ? `?${new URLSearchParams(pairs)}` : "";
}
