import { Alarms } from '../system/alarms.ts';
import { type Clock, systemClock } from '../system/clock.ts';
import type { ObservedRequest, RequestObserver } from './observed-runner.ts';
import { type GenerateRequest, GenerationError } from './runner.ts';

const DEADLINE_PASSED = "The request's deadline passed before the answer was finished.";

/**
 * Ends each answer at the request's deadline or at the server's limit, whichever comes first. An answer that is not finished by
 * then is cancelled and ends with TIMEOUT.
 */
export class TimeLimit implements RequestObserver {
  readonly #limitMs: number;
  readonly #now: () => number;
  readonly #clock: Clock;
  /** Each open request is in one of the two. */
  readonly #deadlines: Alarms<ObservedRequest>;
  readonly #limits: Alarms<ObservedRequest>;

  /** now: milliseconds since 1970, like GenerateRequest.deadlineMs. */
  constructor(limitMs: number, now: () => number, clock: Clock = systemClock) {
    this.#limitMs = limitMs;
    this.#now = now;
    this.#clock = clock;
    const limitReached = `The answer was not finished within ${limitMs / 1000} s, the server's limit.`;
    this.#deadlines = new Alarms(clock, (observed) => observed.fail(timeout(DEADLINE_PASSED)));
    this.#limits = new Alarms(clock, (observed) => observed.fail(timeout(limitReached)));
  }

  onAsked(request: GenerateRequest): void {
    if (this.#leftMs(request) <= 0) throw timeout(DEADLINE_PASSED);
  }

  onAdmitted(observed: ObservedRequest): void {
    const leftMs = this.#leftMs(observed.request);
    const nowMs = this.#clock.now();
    if (leftMs < this.#limitMs) this.#deadlines.set(observed, nowMs + leftMs);
    else this.#limits.set(observed, nowMs + this.#limitMs);
  }

  onEnd(observed: ObservedRequest): void {
    this.#deadlines.delete(observed);
    this.#limits.delete(observed);
  }

  #leftMs({ deadlineMs = Number.POSITIVE_INFINITY }: GenerateRequest): number {
    return deadlineMs - this.#now();
  }
}

function timeout(message: string): GenerationError {
  return new GenerationError('TIMEOUT', message, { retriable: true });
}
