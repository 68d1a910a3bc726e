/**
 * Starts in a row that made no process, mostly because the machine had no descriptors, memory or processes left. They say
 * nothing about the runner or its requests, which therefore wait. The next start is tried after a pause from the first failure
 * on, because the shortage will not end by itself in a microsecond.
 */

/** Requests wait this long for a process; then they end with an error, and new ones are refused. */
export const startPatienceMs = 30_000;
export const firstPauseMs = 250;
/** A try costs little, and streams wait for it. */
export const maxPauseMs = 2000;

export class FailedStarts {
  readonly #now: () => number;
  #count = 0;
  #firstAt = 0;

  /** now: a monotonic clock in milliseconds. */
  constructor(now: () => number) {
    this.#now = now;
  }

  /** Counts one and returns the milliseconds until the next try. */
  nextPauseMs(): number {
    if (this.#count === 0) this.#firstAt = this.#now();
    const pauseMs = Math.min(maxPauseMs, firstPauseMs * 2 ** this.#count);
    this.#count += 1;
    return pauseMs;
  }

  get hasSome(): boolean {
    return this.#count > 0;
  }

  /** Whether the first of them is longer ago than requests wait. */
  get areTooMany(): boolean {
    return this.hasSome && this.#now() - this.#firstAt >= startPatienceMs;
  }

  /** There is a process again. */
  end(): void {
    this.#count = 0;
  }
}
