/** What a server refuses, by the codes it has on the wire. */
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

/** What was sent is not well-formed. */
export class InvalidInput extends MemorandaError {}
/** There is no credential, or it does not hold. */
export class Unauthorized extends MemorandaError {}
/** The credential does not reach this far. */
export class ForbiddenScope extends MemorandaError {}
/** There is nothing, or nothing you may see. */
export class NotFound extends MemorandaError {}
/** Something else is there already, or was changed meanwhile. */
export class Conflict extends MemorandaError {}
/** The memory's own consent forbids it. */
export class ConsentViolation extends MemorandaError {}
/** The server does not offer that. */
export class Unsupported extends MemorandaError {}
/** The store cannot be used right now, or nothing answers. */
export class StoreUnavailable extends MemorandaError {}
/** A query of CAL that was refused; `suggestion` says what to write instead. */
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
/** Too much, too fast. */
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

/** The codes of OAMS, and the words that stand before their messages. */
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

/** The error that an answer stands for. */
export function errorOf(status: number, document: unknown, retryAfter: string | null): MemorandaError {
  const said = isObject(document) && isObject(document["error"]) ? document["error"] : null;
  if (said === null) {
    return new StoreUnavailable("unavailable", `this is not how a Memoranda server answers: status ${status}`, status);
  }
  const code = String(said["code"]);
  const message = String(said["message"]).replace(`${code}: `, "");
  const [kind, meaning] = BY_NUMBER[Number(said["code"])] ?? [];
  if (kind !== undefined) return new kind(code, message.replace(`${meaning}: `, ""), status);
  if (code === "rate_limited" || said["code"] === QUOTA_EXCEEDED) {
    return new RateLimited(code, message, status, Number(retryAfter ?? 1));
  }
  if (code.startsWith("CAL-")) {
    const suggestion = said["suggestion"];
    return new QueryError(code, message, status, typeof suggestion === "string" ? suggestion : null);
  }
  return new (BY_CODE[code] ?? MemorandaError)(code, message, status);
}

function isObject(value: unknown): value is { [name: string]: unknown } {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
