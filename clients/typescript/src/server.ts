import { errorOf, MemorandaError, RateLimited, StoreUnavailable, TimedOut } from "./errors.js";
import { type Operations, ROUTES } from "./operations.js";

/** How one call is made. Every method takes these among its options. */
export interface CallOptions {
  /** Ends the call: its promise is rejected with the reason of the signal. */
  signal?: AbortSignal | undefined;
  /** Milliseconds until the answer must be complete, or a stream must have begun; the default is 60,000. */
  timeoutMs?: number | undefined;
  /** Further attempts after a failure that may pass; the default is 2. */
  retries?: number | undefined;
}

export interface Options {
  /** An API key (`mk_…`) or a capability token (`umpcap.…`). */
  key?: string;
  /** A replacement for the platform's `fetch`. */
  fetch?: typeof fetch;
  /** Milliseconds for each attempt of a call, unless the call says otherwise. */
  timeoutMs?: number;
  /** Further attempts of each call, unless the call says otherwise. */
  retries?: number;
}

export type Fields = { [name: string]: unknown };

/** The fields of a request; undefined and null ones are not sent. */
export type Sent<Known> = { [Name in keyof Known]?: Known[Name] | undefined | null };

/** The parts of a request other than its fields. */
interface Request extends CallOptions {
  headers?: { [name: string]: string };
  /** The operation changes nothing, so it may be sent again whatever happened to it. */
  isRead?: boolean;
  /** The answer is read as it comes, so the time limit ends with its first byte. */
  isStream?: boolean;
}

/** A server queues a request for at most 30 seconds and answers within as many again. */
const TIMEOUT_MS = 60_000;
const RETRIES = 2;
/** The wait before the second attempt; it doubles for each further one. */
const FIRST_WAIT_MS = 250;
/** A server that asks for a longer wait gets its error thrown instead. */
const LONGEST_WAIT_MS = 30_000;
const UNAVAILABLE = 503;
/** Characters of one answer, or of one line of a stream: a server's largest answers have a few million. */
const ANSWER_LIMIT = 64 * 1_048_576;

/** A server, and the key for it. */
export class Server {
  readonly url: string;
  readonly #headers: { [name: string]: string };
  readonly #fetch: typeof fetch;
  readonly #defaults: { readonly timeoutMs: number; readonly retries: number };

  constructor(url: string, options: Options) {
    this.url = url.replace(/\/$/, "");
    this.#fetch = options.fetch ?? ((...parameters) => fetch(...parameters));
    this.#headers = { accept: "application/json" };
    this.#defaults = { timeoutMs: options.timeoutMs ?? TIMEOUT_MS, retries: options.retries ?? RETRIES };
    if (options.key !== undefined) this.#headers["authorization"] = `Bearer ${options.key}`;
  }

  // Call an operation with its fields, and return its answer. Throws the server's error.
  async call<Name extends keyof Operations>(
    name: Name,
    fields: Sent<Operations[Name]["fields"]> = {},
    options: CallOptions & { headers?: { [name: string]: string } } = {},
  ): Promise<Operations[Name]["answer"]> {
    const { response, text } = await this.#send(name, fields, options);
    if (response.status === 204) return undefined as Operations[Name]["answer"];
    const document = parsed(text);
    if (document === undefined) throw errorOf(response.status, null, null);
    return document as Operations[Name]["answer"];
  }

  // Call an operation with a streamed answer.
  async open<Name extends keyof Operations>(
    name: Name,
    fields: Sent<Operations[Name]["fields"]>,
    options: CallOptions & { headers?: { [name: string]: string } } = {},
  ): Promise<Response> {
    return (await this.#send(name, fields, { ...options, isStream: true })).response;
  }

  async #send<Name extends keyof Operations>(
    name: Name,
    fields: Sent<Operations[Name]["fields"]>,
    options: Request,
  ): Promise<{ response: Response; text: string }> {
    const [method, template, rest, isRead] = ROUTES[name];
    const remaining = dropUnset(fields as Fields);
    const path = template.replace(/\{(\w+)\}/g, (_, part: string) => {
      const value = String(remaining[part]);
      delete remaining[part];
      return encodeURIComponent(value);
    });
    const query = rest === "query" ? queryString(remaining) : "";
    const headers: { [name: string]: string } = { ...this.#headers, ...options.headers };
    // A server of Memoranda does not redirect, and a memory is not for whoever an answer names.
    const request: RequestInit = { method, headers, redirect: "manual" };
    if (rest === "body") {
      headers["content-type"] = "application/json";
      request.body = JSON.stringify(remaining);
    }
    return this.#attempt(this.url + path + query, request, { ...options, isRead });
  }

  // Send a request until it succeeds, fails for good, or has been tried often enough.
  async #attempt(url: string, request: RequestInit, options: Request): Promise<{ response: Response; text: string }> {
    const retries = options.retries ?? this.#defaults.retries;
    for (let attempt = 0; ; attempt++) {
      try {
        return await this.#once(url, request, options);
      } catch (error) {
        const waitMs = retryWaitMs(error, attempt, options.isRead === true);
        if (attempt >= retries || waitMs === null || options.signal?.aborted === true) throw error;
        await wait(waitMs, options.signal);
      }
    }
  }

  async #once(url: string, request: RequestInit, options: Request): Promise<{ response: Response; text: string }> {
    const { signal, isStream = false, timeoutMs = this.#defaults.timeoutMs } = options;
    const control = new AbortController();
    const end = () => control.abort(signal?.reason);
    let isLate = false;
    const timer = setTimeout(() => {
      isLate = true;
      control.abort();
    }, timeoutMs);
    if (signal?.aborted === true) end();
    signal?.addEventListener("abort", end, { once: true });
    let isOpen = false;
    try {
      const response = await this.#fetch(url, { ...request, signal: control.signal });
      if (isRedirect(response)) throw this.#refusal("redirects to another address", response.status);
      isOpen = isStream && response.ok;
      const text = isOpen ? "" : await wholeText(response);
      if (response.ok) return { response, text };
      throw errorOf(response.status, parsed(text), response.headers.get("retry-after"));
    } catch (error) {
      if (signal?.aborted === true) throw signal.reason ?? error;
      if (isLate) throw new TimedOut(`${this.url} did not answer within ${timeoutMs} ms`);
      if (error instanceof MemorandaError) throw error;
      throw this.#refusal(`does not answer: ${String(error)}`, 0);
    } finally {
      clearTimeout(timer);
      // A stream is ended by the signal for as long as it is read.
      if (!isOpen) signal?.removeEventListener("abort", end);
    }
  }

  #refusal(problem: string, status: number): StoreUnavailable {
    return new StoreUnavailable("unavailable", `${this.url} ${problem}`, status);
  }
}

function isRedirect(response: Response): boolean {
  // Browsers hide where a redirect leads, and its status.
  return response.type === "opaqueredirect" || (response.status >= 300 && response.status < 400);
}

/** The position after which a page begins; null for the first one. */
export type Cursor = string | null;

/** Yield the pages that `load` returns, each for the cursor that the previous one names. */
export async function* pages<Page extends { next_cursor?: Cursor }>(
  load: (cursor: Cursor) => Promise<Page>,
): AsyncGenerator<Page> {
  let cursor: Cursor = null;
  do {
    const page: Page = await load(cursor);
    yield page;
    const next: Cursor = page.next_cursor ?? null;
    if (next !== null && next === cursor) throw new StoreUnavailable("unavailable", "the server repeats a page", 0);
    cursor = next;
  } while (cursor !== null);
}

/** Return the milliseconds to wait before the next attempt, or null if none would help. */
function retryWaitMs(error: unknown, attempt: number, isRead: boolean): number | null {
  // A request over a rate limit was not carried out. One that failed otherwise may have been.
  if (error instanceof RateLimited) {
    const askedMs = error.retryAfterSeconds * 1000;
    return error.code === "rate_limited" && askedMs <= LONGEST_WAIT_MS ? askedMs : null;
  }
  const mayPass =
    error instanceof StoreUnavailable && !(error instanceof TimedOut) && [0, UNAVAILABLE].includes(error.status);
  if (!isRead || !mayPass) return null;
  // Half of it at random, so that clients that failed together do not come back together.
  return FIRST_WAIT_MS * 2 ** attempt * (0.5 + Math.random() / 2);
}

function wait(milliseconds: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const end = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", end);
      resolve();
    }, milliseconds);
    signal?.addEventListener("abort", end, { once: true });
  });
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Yield the lines of a streamed answer. */
export async function* lines(answer: Response): AsyncGenerator<string> {
  let rest = "";
  for await (const text of texts(answer)) {
    const complete = (rest + text).split(/\r?\n/);
    rest = complete.pop() ?? "";
    if (rest.length > ANSWER_LIMIT) throw tooLong();
    yield* complete;
  }
  if (rest) yield rest;
}

/** Return the text of an answer. Throws StoreUnavailable if it does not end. */
async function wholeText(answer: Response): Promise<string> {
  const parts: string[] = [];
  let length = 0;
  for await (const text of texts(answer)) {
    length += text.length;
    if (length > ANSWER_LIMIT) throw tooLong();
    parts.push(text);
  }
  return parts.join("");
}

function tooLong(): StoreUnavailable {
  return new StoreUnavailable("unavailable", `the answer is over the limit of ${ANSWER_LIMIT} characters`, 0);
}

async function* texts(answer: Response): AsyncGenerator<string> {
  if (answer.body === null) return;
  const reader = answer.body.getReader();
  const decoder = new TextDecoder();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      const text = decoder.decode(value, { stream: !done });
      if (text) yield text;
      if (done) return;
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

/** Return the fields that are neither undefined nor null. */
export function dropUnset(fields: Fields): Fields {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined && value !== null));
}

/** Return the fields as the query of a URL. */
function queryString(fields: Fields): string {
  const pairs = Object.entries(dropUnset(fields)).flatMap(([name, value]) =>
    (Array.isArray(value) ? value : [value]).map((each) => [name, String(each)]),
  );
  return pairs.length ? `?${new URLSearchParams(pairs)}` : "";
}
