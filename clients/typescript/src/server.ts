import { errorOf, StoreUnavailable } from "./errors.js";
import { type Operations, ROUTES } from "./operations.js";

export interface Options {
  /** An API key (`mk_…`) or a capability token (`umpcap.…`). */
  key?: string;
  /** A replacement for the platform's `fetch`. */
  fetch?: typeof fetch;
}

export type Fields = { [name: string]: unknown };

/** The fields of a request; undefined and null ones are not sent. */
export type Sent<Known> = { [Name in keyof Known]?: Known[Name] | undefined | null };

/** A server, and the key for it. */
export class Server {
  readonly url: string;
  readonly #headers: { [name: string]: string };
  readonly #fetch: typeof fetch;

  constructor(url: string, options: Options) {
    this.url = url.replace(/\/$/, "");
    this.#fetch = options.fetch ?? ((...parameters) => fetch(...parameters));
    this.#headers = { accept: "application/json" };
    if (options.key !== undefined) this.#headers["authorization"] = `Bearer ${options.key}`;
  }

  /** Call an operation with its fields, and return its answer. Throws the server's error. */
  async call<Name extends keyof Operations>(
    name: Name,
    fields: Sent<Operations[Name]["fields"]> = {},
    headers: { [name: string]: string } = {},
  ): Promise<Operations[Name]["answer"]> {
    const answer = await this.open(name, fields, { headers });
    return (answer.status === 204 ? undefined : await answer.json()) as Operations[Name]["answer"];
  }

  /** Call an operation with a streamed answer. */
  open<Name extends keyof Operations>(
    name: Name,
    fields: Sent<Operations[Name]["fields"]>,
    more: { headers?: { [name: string]: string }; signal?: AbortSignal | undefined } = {},
  ): Promise<Response> {
    const [method, template, rest] = ROUTES[name];
    const remaining = dropUnset(fields as Fields);
    const path = template.replace(/\{(\w+)\}/g, (_, part: string) => {
      const value = String(remaining[part]);
      delete remaining[part];
      return encodeURIComponent(value);
    });
    const query = rest === "query" ? encoded(remaining) : "";
    return this.send(method, path + query, rest === "body" ? remaining : undefined, more);
  }

  async send(
    method: string,
    path: string,
    body: unknown,
    more: { headers?: { [name: string]: string }; signal?: AbortSignal | undefined } = {},
  ): Promise<Response> {
    const headers: { [name: string]: string } = { ...this.#headers, ...more.headers };
    const sent: RequestInit = { method, headers, signal: more.signal ?? null };
    if (body !== undefined) {
      headers["content-type"] = "application/json";
      sent.body = JSON.stringify(body);
    }
    let answer: Response;
    try {
      answer = await this.#fetch(this.url + path, sent);
    } catch (error) {
      if (more.signal?.aborted === true) throw error;
      throw new StoreUnavailable("unavailable", `${this.url} does not answer: ${String(error)}`, 0);
    }
    if (answer.ok) return answer;
    const document: unknown = await answer.json().catch(() => null);
    throw errorOf(answer.status, document, answer.headers.get("retry-after"));
  }
}

/** Yield the lines of a streamed answer. */
export async function* lines(answer: Response): AsyncGenerator<string> {
  let rest = "";
  for await (const text of texts(answer)) {
    const found = (rest + text).split(/\r?\n/);
    rest = found.pop() ?? "";
    yield* found;
  }
  if (rest) yield rest;
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

/** Return the fields that are neither undefined nor null. */
export function dropUnset(fields: Fields): Fields {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined && value !== null));
}

/** Return the fields as the query of a URL. */
export function encoded(fields: Fields): string {
  const pairs = Object.entries(dropUnset(fields)).flatMap(([name, value]) =>
    (Array.isArray(value) ? value : [value]).map((each) => [name, String(each)]),
  );
  return pairs.length ? `?${new URLSearchParams(pairs)}` : "";
}
