/** Steps of a load worth a line in the log: each quarter once, in order, whatever pieces the runner reports. */
const percents = [0, 25, 50, 75, 100] as const;

export class LoadLog {
  readonly #onPercent: (percent: number) => void;
  #next = 0;

  constructor(onPercent: (percent: number) => void) {
    this.#onPercent = onPercent;
  }

  /** fraction: 0 to 1 of the tensors. The last quarter is over when the runner says Ready, not before. */
  reached(fraction: number): void {
    for (;;) {
      const percent = percents[this.#next];
      if (percent === undefined || fraction * 100 < percent) return;
      this.#next += 1;
      this.#onPercent(percent);
    }
  }
}
