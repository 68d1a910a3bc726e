import type { Caller } from '../../system/caller.ts';
import { SharedLimit } from '../../system/fair-shares.ts';
import { GenerationError } from '../runner.ts';
import { retryAfterSec } from './supervisor.ts';

export interface OpenLimits {
  /** Most requests that generate or wait. Cancelled ones count until the runner lets go of them. */
  readonly maxOpenRequests: number;
  readonly maxQueuedTokens: number;
}

export interface OpenCounts {
  readonly requests: number;
  readonly tokens: number;
}

export class AdmissionLimits {
  readonly requests: SharedLimit;
  /** Of the prompts. */
  readonly tokens: SharedLimit;

  constructor({ maxOpenRequests, maxQueuedTokens }: OpenLimits) {
    this.requests = new SharedLimit(maxOpenRequests);
    this.tokens = new SharedLimit(maxQueuedTokens);
  }

  hold(caller: Caller, numTokens: number): void {
    this.requests.hold(caller, 1);
    this.tokens.hold(caller, numTokens);
  }

  release(caller: Caller, numTokens: number): void {
    this.requests.release(caller, 1);
    this.tokens.release(caller, numTokens);
  }

  /** cancelled: what runners still hold of ended requests. Throws GenerationError if there is no room. */
  assertRoom(caller: Caller, wanted: OpenCounts, cancelled: OpenCounts): void {
    const { openRequests, queuedTokens } = caller.quotas ?? {};
    assertRoom(this.requests, caller, wanted.requests, cancelled.requests, {
      what: 'answers',
      setting: 'max-open-requests',
      quota: openRequests,
    });
    assertRoom(this.tokens, caller, wanted.tokens, cancelled.tokens, {
      what: 'prompt tokens',
      setting: 'max-queued-tokens',
      quota: queuedTokens,
    });
  }
}

interface Resource {
  readonly what: string;
  /** The flag that the limit comes from, and the field of the keys file that the quota comes from. */
  readonly setting: string;
  readonly quota: number | undefined;
}

function assertRoom(
  shared: SharedLimit,
  caller: Caller,
  numWanted: number,
  numCancelled: number,
  { what, setting, quota = Number.POSITIVE_INFINITY }: Resource,
): void {
  const { limit } = shared;
  if (numWanted > limit)
    throw tooMany(`this server allows at most ${limit} at once (--${setting})`, numWanted, what);
  if (numWanted > quota) {
    const rule = `the caller "${caller.name}" may have at most ${quota} at once (${setting} in the keys file)`;
    throw tooMany(rule, numWanted, what);
  }
  if (shared.heldBy(caller) + numWanted > quota)
    throw full(
      `The caller "${caller.name}" has ${shared.heldBy(caller)} ${what} in its open requests, and ${numWanted} more would exceed its quota of ${quota} (${setting} in the keys file). Try again later.`,
    );
  if (shared.hasRoom(caller, numWanted, numCancelled)) return;
  throw full(
    `The server is full: its open requests have ${shared.total + numCancelled} ${what}, and ${numWanted} more would exceed the limit of ${limit} (--${setting}). Try again later.`,
  );
}

function tooMany(rule: string, numWanted: number, what: string): GenerationError {
  const message = `The request asks for ${numWanted} ${what}; ${rule}. Ask for fewer.`;
  return new GenerationError('INVALID_REQUEST', message, { retriable: false });
}

function full(message: string): GenerationError {
  return new GenerationError('QUEUE_FULL', message, { retriable: true, retryAfterSec });
}
