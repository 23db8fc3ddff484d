import { NotFound } from "./errors.js";
import { encoded, given, type Server } from "./server.js";
import type { EraseUserAnswer, FindAnswer, Grain, GrainAnswer, OwnedFindRequest, PutAnswer, SupersedeAnswer } from "./types.js";

const GRAINS = "/oms/grains";

/** The same memory through OMS. */
export class Grains {
  readonly #server: Server;

  constructor(server: Server) {
    this.#server = server;
  }

  /** Add a grain. */
  put(grain: Grain): Promise<PutAnswer> {
    return this.#server.ask("POST", GRAINS, { grain });
  }

  /** One grain by its address. */
  get(address: string): Promise<GrainAnswer> {
    return this.#server.ask("GET", path(address));
  }

  /** Whether there is such a grain. */
  async exists(address: string): Promise<boolean> {
    try {
      await this.get(address);
      return true;
    } catch (error) {
      if (error instanceof NotFound) return false;
      throw error;
    }
  }

  /** Grains that match, best first when words were given, else in the order written. */
  find(asked: Partial<OwnedFindRequest>): Promise<FindAnswer> {
    return this.#server.ask("POST", `${GRAINS}/search`, asked);
  }

  /** Replace a grain under its policy. */
  supersede(address: string, grain: Grain, justification?: string): Promise<SupersedeAnswer> {
    return this.#server.ask("POST", `${path(address)}/supersede`, given({ grain, justification }));
  }

  /** Say what is known of a grain's truth. */
  async setVerification(
    address: string,
    status: "unverified" | "verified" | "contested" | "retracted",
    options: { reason?: string; by?: string } = {},
  ): Promise<string> {
    const asked = given({ status, ...options });
    return (await this.#server.ask<{ verification_status: string }>("POST", `${path(address)}/verification`, asked))
      .verification_status;
  }

  /** Put a legal hold on a grain, or lift it. */
  async setHold(address: string, held: boolean, reason = ""): Promise<boolean> {
    const asked = `${path(address)}/hold${encoded({ reason })}`;
    return (await this.#server.ask<{ held: boolean }>(held ? "PUT" : "DELETE", asked)).held;
  }

  /** Erase a grain for compliance. */
  async erase(address: string, reason: string): Promise<void> {
    await this.#server.ask("DELETE", path(address) + encoded({ reason }));
  }

  /** Erase everything of a user, and destroy the user's key. */
  eraseUser(user_id: string, reason: string): Promise<EraseUserAnswer> {
    return this.#server.ask("POST", "/oms/users/erase", { user_id, reason });
  }

  /** The address of the consent under which `grantee` may act on what is `subject`'s, now. */
  async consent(subject: string, grantee: string, scope = "retrieve"): Promise<string | null> {
    const asked = encoded({ subject_did: subject, grantee_did: grantee, scope });
    return (await this.#server.ask<{ address: string | null }>("GET", `/oms/consents${asked}`)).address;
  }
}

function path(address: string): string {
  return `${GRAINS}/${encodeURIComponent(address)}`;
}
