/**
 * Who may prepare a request: everybody, but while another model, or another backend, takes over. Who comes then waits before
 * anybody looks at what is asked, since it is the next model that says which tokens that is.
 */
import { cancelled, GenerationError } from '../runner/runner.ts';
import { retryAfterSec } from '../runner/supervision/supervisor.ts';
import { type Clock, systemClock } from '../system/clock.ts';

export interface AdmissionGateOptions {
  /** Requests that wait at a time; more are refused. */
  readonly maxWaiting: number;
  /** What no request waits longer than, deadline or not. */
  readonly maxWaitMs: number;
  /** Milliseconds since 1970, as deadlines are. */
  readonly now: () => number;
  /** Hears of each request that did not get in. */
  readonly onRefused: (error: GenerationError) => void;
  readonly clock?: Clock;
}

/** Who waits at the gate. */
export interface Waiter {
  /** Milliseconds since 1970 after which it need not get in any more. */
  readonly deadlineMs: number | undefined;
  /** Aborted when it leaves. */
  readonly signal: AbortSignal;
}

export class AdmissionGate {
  readonly #options: AdmissionGateOptions;
  readonly #clock: Clock;
  /** What lets each of those who wait in, in the order they came. */
  readonly #waiting = new Set<() => void>();
  #isClosed = false;
  #numInside = 0;
  #emptied: (() => void)[] = [];

  constructor(options: AdmissionGateOptions) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  get numWaiting(): number {
    return this.#waiting.size;
  }

  /** Requests that are let in and not prepared yet. */
  get numInside(): number {
    return this.#numInside;
  }

  /** Gives a function that must be called when the request is prepared, or is not going to be. Throws GenerationError. */
  async enter({ deadlineMs = Number.POSITIVE_INFINITY, signal }: Waiter): Promise<() => void> {
    const { now, maxWaitMs } = this.#options;
    // Told from now on by a clock that nobody sets.
    const leftMs = deadlineMs - now();
    const untilMs = this.#clock.now() + Math.min(leftMs, maxWaitMs);
    try {
      // It may have been closed again before this one had its turn.
      while (this.#isClosed) await this.#wait(untilMs, leftMs <= maxWaitMs, signal);
    } catch (error) {
      if (error instanceof GenerationError) this.#options.onRefused(error);
      throw error;
    }
    this.#numInside++;
    return () => this.#leave();
  }

  close(): void {
    this.#isClosed = true;
  }

  open(): void {
    this.#isClosed = false;
    for (const letIn of this.#waiting) letIn();
  }

  /** Resolves when nobody is inside. */
  emptied(): Promise<void> {
    if (this.#numInside === 0) return Promise.resolve();
    return new Promise((resolve) => this.#emptied.push(resolve));
  }

  #leave(): void {
    this.#numInside--;
    if (this.#numInside > 0) return;
    for (const resolve of this.#emptied.splice(0)) resolve();
  }

  #wait(untilMs: number, isOwnDeadline: boolean, signal: AbortSignal): Promise<void> {
    const { maxWaiting, maxWaitMs } = this.#options;
    if (this.#waiting.size >= maxWaiting) {
      const message = `${maxWaiting} requests wait for what takes over already, which is the limit.`;
      throw new GenerationError('QUEUE_FULL', message, { retriable: true, retryAfterSec });
    }
    return new Promise((resolve, reject) => {
      const leaveQueue = (): void => {
        timer.cancel();
        signal.removeEventListener('abort', onGone);
        this.#waiting.delete(letIn);
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
          ? "The request's deadline passed while it waited for another model, or another runner."
          : `The other model, or the other runner, did not take over within ${maxWaitMs / 1000} s, the server's limit.`;
        giveUp(new GenerationError('TIMEOUT', message, { retriable: true }));
      };
      const timer = this.#clock.after(Math.max(0, untilMs - this.#clock.now()), onTimeUp);
      this.#waiting.add(letIn);
      if (signal.aborted) onGone();
      else signal.addEventListener('abort', onGone, { once: true });
    });
  }
}
