import type { Server } from "./server.js";
import type { OamsMemory, OamsPage } from "./types.js";

export interface OamsFields {
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
  #own: Promise<string> | undefined;

  constructor(server: Server) {
    this.#server = server;
  }

  /** Return the complete name of a namespace. */
  async namespace(name?: string): Promise<string> {
    if (name?.includes(":")) return name;
    this.#own ??= this.#server.call("oams_namespaces").then((answer) => answer.default);
    const own = await this.#own;
    return name === undefined ? own : `${own.split(":")[0]}:${name}`;
  }

  /** List the namespaces with memories. */
  async namespaces(): Promise<string[]> {
    return (await this.#server.call("oams_namespaces")).namespaces;
  }

  /** Write a memory: a new one, or the next version of the one under the key. */
  async store(key: string, value: string, fields: OamsFields & { namespace?: string } = {}): Promise<OamsMemory> {
    const { namespace: name, ifMatch, ifAbsent, tags, ...rest } = fields;
    const namespace = await this.namespace(name);
    const headers: { [name: string]: string } = {};
    if (ifMatch !== undefined) headers["if-match"] = ifMatch;
    if (ifAbsent === true) headers["if-none-match"] = "*";
    return this.#server.call("oams_store", { key, namespace, value, tags: tags && [...tags], ...rest }, headers);
  }

  /** Return the best memories for a query. */
  async recall(query: string, options: { namespace?: string; k?: number; tags?: readonly string[] } = {}): Promise<OamsMemory[]> {
    const { namespace, k = 8, tags } = options;
    return this.#server.call("oams_recall", { query, namespaces: [await this.namespace(namespace)], k, tags: tags && [...tags] });
  }

  /** Return one memory by its key. */
  async get(key: string, namespace?: string): Promise<OamsMemory> {
    return this.#server.call("oams_get", { namespace: await this.namespace(namespace), key });
  }

  /** Forget a memory. */
  async forget(key: string, namespace?: string): Promise<void> {
    await this.#server.call("oams_forget", { namespace: await this.namespace(namespace), key });
  }

  /** List a page of a namespace, last updated first. */
  async list(options: { namespace?: string; limit?: number; cursor?: string; tags?: readonly string[] } = {}): Promise<OamsPage> {
    const { namespace, tags, ...rest } = options;
    return this.#server.call("oams_list", { ...rest, namespace: await this.namespace(namespace), tags: tags && [...tags] });
  }
}
