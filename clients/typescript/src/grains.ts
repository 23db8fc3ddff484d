import { NotFound } from "./errors.js";
import type { Server } from "./server.js";
import type { EraseUserAnswer, FindAnswer, Grain, GrainAnswer, OwnedFindRequest, PutAnswer, SupersedeAnswer } from "./types.js";

/** The memories as OMS grains. */
export class Grains {
  readonly #server: Server;

  constructor(server: Server) {
    this.#server = server;
  }

  /** Add a grain. */
  put(grain: Grain): Promise<PutAnswer> {
    return this.#server.call("grain_put", { grain });
  }

  /** Return one grain by its address. */
  get(address: string): Promise<GrainAnswer> {
    return this.#server.call("grain_get", { address });
  }

  /** Return true if the grain exists. */
  async exists(address: string): Promise<boolean> {
    try {
      await this.get(address);
      return true;
    } catch (error) {
      if (error instanceof NotFound) return false;
      throw error;
    }
  }

  /** Find grains: best first for a text, otherwise in the order of writing. */
  find(request: Partial<OwnedFindRequest>): Promise<FindAnswer> {
    return this.#server.call("grain_search", request);
  }

  /** Replace a grain under its policy. */
  supersede(address: string, grain: Grain, justification?: string): Promise<SupersedeAnswer> {
    return this.#server.call("grain_supersede", { address, grain, justification });
  }

  /** Set the verification status of a grain. */
  async setVerification(
    address: string,
    status: "unverified" | "verified" | "contested" | "retracted",
    options: { reason?: string; by?: string } = {},
  ): Promise<string> {
    return (await this.#server.call("grain_verification", { address, status, ...options })).verification_status;
  }

  /** Put a legal hold on a grain, or lift it. */
  async setHold(address: string, held: boolean, reason = ""): Promise<boolean> {
    return (await this.#server.call(held ? "grain_hold" : "grain_release", { address, reason })).held;
  }

  /** Erase a grain for compliance. */
  async erase(address: string, reason: string): Promise<void> {
    await this.#server.call("grain_erase", { address, reason });
  }

  /** Erase all grains of a user, and destroy the user's key. */
  eraseUser(user_id: string, reason: string): Promise<EraseUserAnswer> {
    return this.#server.call("user_erase", { user_id, reason });
  }

  /** Return the address of the consent that currently lets `grantee` use the data of `subject`. */
  async consent(subject: string, grantee: string, scope = "retrieve"): Promise<string | null> {
    return (await this.#server.call("consents", { subject_did: subject, grantee_did: grantee, scope })).address;
  }
}
