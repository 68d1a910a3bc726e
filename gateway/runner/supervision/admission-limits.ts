import type { Caller } from '../../system/caller.ts';
import { SharedLimit } from '../../system/shared-limit.ts';
import { GenerationError } from '../runner.ts';
import { retryAfterSec } from './supervisor.ts';

export interface OpenLimits {
  /** Most requests that generate or wait. Cancelled ones count until the runner lets go of them. */
  readonly maxOpenRequests: number;
  /** Most prompt tokens of these requests. */
  readonly maxQueuedTokens: number;
}

/** Numbers of requests and of the tokens of their prompts. */
export interface OpenCounts {
  readonly requests: number;
  readonly tokens: number;
}

/** What the open requests of callers may take together. */
export class AdmissionLimits {
  readonly #requests: SharedLimit;
  readonly #tokens: SharedLimit;

  constructor({ maxOpenRequests, maxQueuedTokens }: OpenLimits) {
    this.#requests = new SharedLimit(maxOpenRequests);
    this.#tokens = new SharedLimit(maxQueuedTokens);
  }

  /** The most requests that can be open. */
  get ceiling(): number {
    return this.#requests.ceiling;
  }

  /** Number of callers that have open requests. */
  get numCallers(): number {
    return this.#requests.numCallers;
  }

  get numTokens(): number {
    return this.#tokens.total;
  }

  hold(caller: Caller, numTokens: number): void {
    this.#requests.hold(caller, 1);
    this.#tokens.hold(caller, numTokens);
  }

  release(caller: Caller, numTokens: number): void {
    this.#requests.release(caller, 1);
    this.#tokens.release(caller, numTokens);
  }

  /** cancelled: what runners still hold of ended requests. Throws GenerationError if there is no room. */
  assertRoom(caller: Caller, wanted: OpenCounts, cancelled: OpenCounts): void {
    assertRoom(this.#requests, caller, wanted.requests, cancelled.requests, {
      what: 'answers',
      flag: '--max-open-requests',
    });
    assertRoom(this.#tokens, caller, wanted.tokens, cancelled.tokens, {
      what: 'prompt tokens',
      flag: '--max-queued-tokens',
    });
  }
}

/** flag: the setting that the limit comes from. */
function assertRoom(
  shared: SharedLimit,
  caller: Caller,
  numWanted: number,
  numCancelled: number,
  { what, flag }: { readonly what: string; readonly flag: string },
): void {
  const { limit } = shared;
  if (numWanted > limit) {
    const message = `The request asks for ${numWanted} ${what}; this server allows at most ${limit} at once (${flag}). Ask for fewer.`;
    throw new GenerationError('INVALID_REQUEST', message, { retriable: false });
  }
  if (shared.hasRoom(caller, numWanted, numCancelled)) return;
  const numHeld = shared.total + numCancelled;
  const message = `The server is full: its open requests have ${numHeld} ${what}, and ${numWanted} more would exceed the limit of ${limit} (${flag}). Try again later.`;
  throw new GenerationError('QUEUE_FULL', message, { retriable: true, retryAfterSec });
}
