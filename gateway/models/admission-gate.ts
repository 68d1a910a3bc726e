/**
 * Decides when a request may be prepared: at once, unless another model or backend is taking over. Requests then wait before
 * anybody reads them, because their tokens depend on the next model.
 */
import { cancelled, GenerationError } from '../runner/runner.ts';
import { retryAfterSec } from '../runner/supervision/supervisor.ts';
import { type Caller, isInBackground } from '../system/caller.ts';
import { type Clock, systemClock } from '../system/clock.ts';
import { SharedLimit } from '../system/fair-shares.ts';

export interface AdmissionGateOptions {
  /** Most requests that wait at a time; callers share it, and more are refused. */
  readonly maxWaiting: number;
  /** The longest wait of any request, with or without a deadline. */
  readonly maxWaitMs: number;
  /** Milliseconds since 1970, as in deadlines. */
  readonly now: () => number;
  readonly onRefused: (error: GenerationError) => void;
  readonly clock?: Clock;
}

export interface Waiter {
  /** Milliseconds since 1970 after which the request need not get in any more. */
  readonly deadlineMs: number | undefined;
  /** Aborted when the client leaves. */
  readonly signal: AbortSignal;
  readonly caller: Caller;
  /** The longest wait of this request; by default that of any. */
  readonly maxWaitMs?: number | undefined;
}

export class AdmissionGate {
  readonly #options: AdmissionGateOptions;
  readonly #clock: Clock;
  /** Functions that let the waiting requests in, in the order of their arrival, with their callers. */
  readonly #waiting = new Map<() => void, Caller>();
  readonly #limit: SharedLimit;
  #isClosed = false;
  #numInside = 0;
  #numInsideInBackground = 0;
  #emptied: (() => void)[] = [];

  constructor(options: AdmissionGateOptions) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    this.#limit = new SharedLimit(options.maxWaiting);
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  get numWaiting(): number {
    return this.#waiting.size;
  }

  /** Whether a request waits that is not in the background. */
  get isUrgent(): boolean {
    return [...this.#waiting.values()].some((caller) => !isInBackground(caller));
  }

  /** Requests that were let in and are not prepared yet. */
  get numInside(): number {
    return this.#numInside;
  }

  get numInsideInBackground(): number {
    return this.#numInsideInBackground;
  }

  /**
   * Waits until the gate is open. Returns a function that must be called when the request is prepared, or given up. Throws
   * GenerationError.
   */
  async enter(waiter: Waiter): Promise<() => void> {
    const { now } = this.#options;
    const { deadlineMs = Number.POSITIVE_INFINITY, maxWaitMs = this.#options.maxWaitMs } = waiter;
    // From here on the deadline is measured by the monotonic clock, which nobody sets.
    const leftMs = deadlineMs - now();
    const untilMs = this.#clock.now() + Math.min(leftMs, maxWaitMs);
    try {
      // The gate may have been closed again before this request's turn.
      while (this.#isClosed) await this.#wait(untilMs, leftMs <= maxWaitMs, waiter);
    } catch (error) {
      if (error instanceof GenerationError) this.#options.onRefused(error);
      throw error;
    }
    const background = isInBackground(waiter.caller) ? 1 : 0;
    this.#numInside += 1;
    this.#numInsideInBackground += background;
    return () => this.#leave(background);
  }

  close(): void {
    this.#isClosed = true;
  }

  open(): void {
    this.#isClosed = false;
    for (const letIn of this.#waiting.keys()) letIn();
  }

  emptied(): Promise<void> {
    if (this.#numInside === 0) return Promise.resolve();
    return new Promise((resolve) => this.#emptied.push(resolve));
  }

  #leave(background: number): void {
    this.#numInside -= 1;
    this.#numInsideInBackground -= background;
    if (this.#numInside > 0) return;
    for (const resolve of this.#emptied.splice(0)) resolve();
  }

  #wait(untilMs: number, isOwnDeadline: boolean, waiter: Waiter): Promise<void> {
    const { maxWaiting } = this.#options;
    const { signal, caller, maxWaitMs = this.#options.maxWaitMs } = waiter;
    if (!this.#limit.hasRoom(caller, 1)) {
      const message = `${this.numWaiting} requests already wait for another model or runner; the limit is ${maxWaiting} (--max-open-requests). Try again later.`;
      throw new GenerationError('QUEUE_FULL', message, { retriable: true, retryAfterSec });
    }
    return new Promise((resolve, reject) => {
      const leaveQueue = (): void => {
        timer.cancel();
        signal.removeEventListener('abort', onGone);
        this.#waiting.delete(letIn);
        this.#limit.release(caller, 1);
      };
      const letIn = (): void => {
        leaveQueue();
        resolve();
      };
      const giveUp = (error: GenerationError): void => {
        leaveQueue();
        reject(error);
      };
      const onGone = (): void => giveUp(cancelled());
      const onTimeUp = (): void => {
        const message = isOwnDeadline
          ? "The request's deadline passed while it waited for another model or runner."
          : `The next model or runner was not ready within ${maxWaitMs / 1000} s, the longest time that a request may wait.`;
        giveUp(new GenerationError('TIMEOUT', message, { retriable: true }));
      };
      const timer = this.#clock.after(Math.max(0, untilMs - this.#clock.now()), onTimeUp);
      this.#waiting.set(letIn, caller);
      this.#limit.hold(caller, 1);
      if (signal.aborted) onGone();
      else signal.addEventListener('abort', onGone, { once: true });
    });
  }
}
