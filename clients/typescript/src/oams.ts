import type { CallOptions, Server } from "./server.js";
import type { OamsMemory, OamsPage } from "./types.js";

/** The namespace of a call: a complete name, or only its scope. */
export interface InNamespace extends CallOptions {
  namespace?: string;
}

export interface OamsFields extends InNamespace {
  tags?: readonly string[];
  metadata?: { [name: string]: unknown };
  source_id?: string;
  /** Write only if the version under the key has this ETag. */
  ifMatch?: string;
  /** Write only if the key is unused. */
  ifAbsent?: boolean;
}

/** The memories through OAMS. A namespace is a complete name or only its scope; by default the owner's own. */
export class Oams {
  readonly #server: Server;
  #own: string | undefined;

  constructor(server: Server) {
    this.#server = server;
  }

  /** Return the complete name of a namespace. */
  async namespace(name?: string, options: CallOptions = {}): Promise<string> {
    if (name?.includes(":")) return name;
    this.#own ??= (await this.#server.call("oams_namespaces", {}, options)).default;
    const own = this.#own;
    return name === undefined ? own : `${own.split(":")[0]}:${name}`;
  }

  /** List the namespaces with memories. */
  async namespaces(options: CallOptions = {}): Promise<string[]> {
    return (await this.#server.call("oams_namespaces", {}, options)).namespaces;
  }

  /** Write a memory: a new one, or the next version of the one under the key. */
  async store(key: string, value: string, fields: OamsFields = {}): Promise<OamsMemory> {
    const { ifMatch, ifAbsent, tags, metadata, source_id, signal, timeoutMs, retries } = fields;
    const namespace = await this.namespace(fields.namespace, { signal, timeoutMs, retries });
    const headers: { [name: string]: string } = {};
    if (ifMatch !== undefined) headers["if-match"] = ifMatch;
    if (ifAbsent === true) headers["if-none-match"] = "*";
    const request = { key, namespace, value, tags: tags && [...tags], metadata, source_id };
    return this.#server.call("oams_store", request, { headers, signal, timeoutMs, retries });
  }

  /** Return the best memories for a query. */
  async recall(
    query: string,
    options: InNamespace & { k?: number; tags?: readonly string[] } = {},
  ): Promise<OamsMemory[]> {
    const { namespace, k = 8, tags, ...call } = options;
    const request = { query, namespaces: [await this.namespace(namespace, call)], k, tags: tags && [...tags] };
    return this.#server.call("oams_recall", request, call);
  }

  /** Return one memory by its key. */
  async get(key: string, options: InNamespace = {}): Promise<OamsMemory> {
    const { namespace, ...call } = options;
    return this.#server.call("oams_get", { namespace: await this.namespace(namespace, call), key }, call);
  }

  /** Forget a memory. */
  async forget(key: string, options: InNamespace = {}): Promise<void> {
    const { namespace, ...call } = options;
    await this.#server.call("oams_forget", { namespace: await this.namespace(namespace, call), key }, call);
  }

  /** List a page of a namespace, last updated first. */
  async list(
    options: InNamespace & { limit?: number; cursor?: string; tags?: readonly string[] } = {},
  ): Promise<OamsPage> {
    const { namespace, tags, limit, cursor, ...call } = options;
    const request = { namespace: await this.namespace(namespace, call), limit, cursor, tags: tags && [...tags] };
    return this.#server.call("oams_list", request, call);
  }
}
