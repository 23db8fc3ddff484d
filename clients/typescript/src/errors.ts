/** The errors of a server, by their codes. */
export class MemorandaError extends Error {
  constructor(
    readonly code: string,
    message: string,
    readonly status: number,
  ) {
    super(message);
    this.name = new.target.name;
  }
}

/** The request is malformed. */
export class InvalidInput extends MemorandaError {}
/** The credential is missing or invalid. */
export class Unauthorized extends MemorandaError {}
/** The credential does not allow this. */
export class ForbiddenScope extends MemorandaError {}
/** The memory does not exist, or you may not see it. */
export class NotFound extends MemorandaError {}
/** The request conflicts with existing or changed data. */
export class Conflict extends MemorandaError {}
/** The memory's consent forbids this. */
export class ConsentViolation extends MemorandaError {}
/** The server does not support this. */
export class Unsupported extends MemorandaError {}
/** The store is unavailable, or the server does not answer. */
export class StoreUnavailable extends MemorandaError {}
/** The answer took longer than `timeoutMs`. A write may have been carried out. */
export class TimedOut extends StoreUnavailable {
  constructor(message: string) {
    super("timeout", message, 0);
  }
}
/** A refused CAL query; `suggestion` has a correction. */
export class QueryError extends MemorandaError {
  constructor(
    code: string,
    message: string,
    status: number,
    readonly suggestion: string | null,
  ) {
    super(code, message, status);
  }
}
/** A rate limit or quota is exceeded. */
export class RateLimited extends MemorandaError {
  constructor(
    code: string,
    message: string,
    status: number,
    readonly retryAfterSeconds: number,
  ) {
    super(code, message, status);
  }
}

const BY_CODE: { readonly [code: string]: typeof InvalidInput } = {
  invalid_record: InvalidInput,
  unauthorized: Unauthorized,
  forbidden_scope: ForbiddenScope,
  not_found: NotFound,
  consent_violation: ConsentViolation,
  unsupported: Unsupported,
  unavailable: StoreUnavailable,
};

/** The codes of OAMS, and the prefixes of their messages. */
const BY_NUMBER: { readonly [code: number]: readonly [typeof InvalidInput, string] } = {
  [-32001]: [NotFound, "namespace not found"],
  [-32002]: [NotFound, "memory not found"],
  [-32003]: [InvalidInput, "validation failed"],
  [-32005]: [ForbiddenScope, "cross-namespace access denied"],
  [-32600]: [InvalidInput, "invalid request"],
  [-32602]: [InvalidInput, "invalid params"],
  [-32700]: [InvalidInput, "parse error"],
  [-32095]: [Conflict, "version mismatch"],
  [-32096]: [Unauthorized, "unauthorized"],
  [-32097]: [Conflict, "conflict"],
  [-32098]: [StoreUnavailable, "store unavailable"],
  [-32099]: [Unsupported, "not supported"],
};
const QUOTA_EXCEEDED = -32004;

/** Return the error of an answer. */
export function errorOf(status: number, document: unknown, retryAfter: string | null): MemorandaError {
  const stated = isObject(document) && isObject(document["error"]) ? document["error"] : null;
  if (stated === null) {
    return new StoreUnavailable("unavailable", `this is not how a Memoranda server answers: status ${status}`, status);
  }
  const code = String(stated["code"]);
  const message = String(stated["message"]).replace(`${code}: `, "");
  const [kind, meaning] = BY_NUMBER[Number(stated["code"])] ?? [];
  if (kind !== undefined) return new kind(code, message.replace(`${meaning}: `, ""), status);
  if (code === "rate_limited" || stated["code"] === QUOTA_EXCEEDED) {
    return new RateLimited(code, message, status, Number(retryAfter ?? 1));
  }
  if (code.startsWith("CAL-")) {
    const suggestion = stated["suggestion"];
    return new QueryError(code, message, status, typeof suggestion === "string" ? suggestion : null);
  }
  // Own names only: a code such as "constructor" names no error.
  const Known = Object.hasOwn(BY_CODE, code) ? BY_CODE[code] : undefined;
  return new (Known ?? MemorandaError)(code, message, status);
}

function isObject(value: unknown): value is { [name: string]: unknown } {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
