/**
 * How long to wait before the next runner: a burst of restarts costs nothing, a crash loop gets slower and slower, and
 * a runner that stays up ends it. The burst is Erlang/OTP's "intensity" rule, the delays are exponential with jitter.
 */
export const burstRestarts = 5;
export const burstWindowMs = 30_000;
export const firstDelayMs = 250;
export const maxDelayMs = 30_000;
export const jitter = 0.2;
export const healthyAfterMs = 60_000;

export class Backoff {
  readonly #now: () => number;
  readonly #random: () => number;
  /** Times of the restarts in the window, as long as they are free. */
  #burst: number[] = [];
  #numDelays = 0;

  /** now: milliseconds that only grow. random: 0 to 1. */
  constructor(now: () => number, random: () => number) {
    this.#now = now;
    this.#random = random;
  }

  /** Counts one restart and returns its delay. healthyForMs: how long the runner that died had been ready. */
  nextDelayMs(healthyForMs: number): number {
    const now = this.#now();
    if (healthyForMs >= healthyAfterMs) {
      this.#burst = [];
      this.#numDelays = 0;
    }
    this.#burst = this.#burst.filter((time) => now - time < burstWindowMs);
    // Once delays have begun they go on: their own length would empty the window, and a new burst would follow.
    if (this.#numDelays === 0 && this.#burst.length < burstRestarts) {
      this.#burst.push(now);
      return 0;
    }
    const delayMs = Math.min(maxDelayMs, firstDelayMs * 2 ** this.#numDelays);
    this.#numDelays += 1;
    return delayMs * (1 + jitter * (2 * this.#random() - 1));
  }
}
