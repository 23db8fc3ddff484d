import { NotFound } from "./errors.js";
import type { CallOptions, Server } from "./server.js";
import type { EraseUserAnswer, FindAnswer, Grain, GrainAnswer, OwnedFindRequest, PutAnswer, SupersedeAnswer } from "./types.js";

/** The memories as OMS grains. */
export class Grains {
  readonly #server: Server;

  constructor(server: Server) {
    this.#server = server;
  }

  /** Add a grain. */
  put(grain: Grain, options: CallOptions = {}): Promise<PutAnswer> {
    return this.#server.call("grain_put", { grain }, options);
  }

  /** Return one grain by its address. */
  get(address: string, options: CallOptions = {}): Promise<GrainAnswer> {
    return this.#server.call("grain_get", { address }, options);
  }

  /** Return true if the grain exists. */
  async exists(address: string, options: CallOptions = {}): Promise<boolean> {
    try {
      await this.get(address, options);
      return true;
    } catch (error) {
      if (error instanceof NotFound) return false;
      throw error;
    }
  }

  /** Find grains: best first for a text, otherwise in the order of writing. */
  find(request: Partial<OwnedFindRequest>, options: CallOptions = {}): Promise<FindAnswer> {
    return this.#server.call("grain_search", request, options);
  }

  /** Replace a grain under its policy. */
  supersede(
    address: string,
    grain: Grain,
    options: CallOptions & { justification?: string } = {},
  ): Promise<SupersedeAnswer> {
    const { justification, ...call } = options;
    return this.#server.call("grain_supersede", { address, grain, justification }, call);
  }

  /** Set the verification status of a grain. */
  async setVerification(
    address: string,
    status: "unverified" | "verified" | "contested" | "retracted",
    options: CallOptions & { reason?: string; by?: string } = {},
  ): Promise<string> {
    const { reason, by, ...call } = options;
    return (await this.#server.call("grain_verification", { address, status, reason, by }, call)).verification_status;
  }

  /** Put a legal hold on a grain, or lift it. */
  async setHold(address: string, held: boolean, options: CallOptions & { reason?: string } = {}): Promise<boolean> {
    const { reason = "", ...call } = options;
    return (await this.#server.call(held ? "grain_hold" : "grain_release", { address, reason }, call)).held;
  }

  /** Erase a grain for compliance. */
  async erase(address: string, reason: string, options: CallOptions = {}): Promise<void> {
    await this.#server.call("grain_erase", { address, reason }, options);
  }

  /** Erase all grains of a user, and destroy the user's key. */
  eraseUser(user: string, reason: string, options: CallOptions = {}): Promise<EraseUserAnswer> {
    return this.#server.call("user_erase", { user_id: user, reason }, options);
  }

  /** Return the address of the consent that currently lets `grantee` use the data of `subject`. */
  async consent(
    subject: string,
    grantee: string,
    options: CallOptions & { scope?: string } = {},
  ): Promise<string | null> {
    const { scope = "retrieve", ...call } = options;
    return (await this.#server.call("consents", { subject_did: subject, grantee_did: grantee, scope }, call)).address;
  }
}
