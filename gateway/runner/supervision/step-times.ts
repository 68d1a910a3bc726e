/** How long the steps of a runner take, by the last of them. Outlives a runner: the next one computes the same. */
export const maxStepTimes = 512;

/** Fewer say nothing: the first ones bring the weights into memory. */
export const minStepTimes = 8;

export class StepTimes {
  readonly #timesMs: number[] = [];
  #next = 0;

  add(timeMs: number): void {
    this.#timesMs[this.#next] = timeMs;
    this.#next = (this.#next + 1) % maxStepTimes;
  }

  get isKnown(): boolean {
    return this.#timesMs.length >= minStepTimes;
  }

  /** Not the median: when our own loop was late, steps come together, some after no time at all. */
  get meanMs(): number {
    return this.#timesMs.reduce((sum, timeMs) => sum + timeMs, 0) / Math.max(1, this.#timesMs.length);
  }

  /** Of a hundred steps, one takes longer. */
  get p99Ms(): number {
    const sorted = this.#timesMs.toSorted((a, b) => a - b);
    return sorted[Math.floor(sorted.length * 0.99)] ?? 0;
  }
}
