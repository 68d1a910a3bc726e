import type { RunnerSpec } from './runner-spec.ts';

/** One runner in place of another, from the wish for it until the new one is ready, or is not going to be. */
export class Replacement {
  /** What is gone back to. */
  readonly before: RunnerSpec;
  /** The runner there is was told to end. */
  isEnding = false;
  readonly #waiting: ((failure: string | undefined) => void)[] = [];

  constructor(before: RunnerSpec) {
    this.before = before;
  }

  /** Resolves with undefined when the new runner is ready, or with the reason why it is not. */
  settled(): Promise<string | undefined> {
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  settle(failure: string | undefined): void {
    for (const resolve of this.#waiting) resolve(failure);
  }
}
