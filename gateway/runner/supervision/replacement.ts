import type { RunnerSpec } from './runner-spec.ts';

/** One runner's replacement by another, from the request for it until the new runner is ready or has failed. */
export class Replacement {
  /** The spec to go back to on failure. */
  readonly before: RunnerSpec;
  /** The old runner was told to end and has not died yet. */
  isEnding = false;
  /** Resolves with undefined when the new runner is ready, or with the reason why it is not. */
  readonly settled: Promise<string | undefined>;
  settle: (failure: string | undefined) => void = () => {};

  constructor(before: RunnerSpec) {
    this.before = before;
    this.settled = new Promise((resolve) => (this.settle = resolve));
  }
}

/** RunnerSupervisor implements it. */
interface Replaceable {
  replace(change: Partial<RunnerSpec>): Promise<string | undefined>;
}

/** Replaces the runners of a pool one after the other, so that one always serves. For another model it replaces all at once. */
export class RollingReplacement {
  readonly #supervisors: readonly Replaceable[];
  #spec: RunnerSpec;
  /** Number of the newest replacement. An older one stops at its next runner, and its promise resolves as the newest one does. */
  #number = 0;
  #last: Promise<string | undefined> = Promise.resolve(undefined);
  #isStopping = false;

  constructor(supervisors: readonly Replaceable[], spec: RunnerSpec) {
    this.#supervisors = supervisors;
    this.#spec = spec;
  }

  /**
   * Resolves with undefined when all runners are ready, or with the reason why one is not. Of several replacements at once
   * the last one counts.
   */
  replace(change: Partial<RunnerSpec>): Promise<string | undefined> {
    const [first, ...others] = this.#supervisors;
    if (first !== undefined && others.length === 0) return first.replace(change);
    this.#number += 1;
    const number = this.#number;
    const spec = { ...this.#spec, ...change };
    const isOtherModel = spec.modelPath !== this.#spec.modelPath;
    // Memory need not hold two models, so their runners are replaced all at once.
    const replaced = isOtherModel
      ? this.#replace([this.#supervisors], spec, number)
      : this.#last.then(() =>
          this.#replace(
            this.#supervisors.map((one) => [one]),
            spec,
            number,
          ),
        );
    this.#last = replaced;
    return replaced.then((failure) => (number === this.#number ? failure : this.#last));
  }

  stop(): void {
    this.#isStopping = true;
  }

  #isOver(number: number): boolean {
    return this.#isStopping || number !== this.#number;
  }

  /** Replaces one group after the other. After a failure, those that were replaced go back to the spec that is known to run. */
  async #replace(
    groups: readonly (readonly Replaceable[])[],
    spec: RunnerSpec,
    number: number,
  ): Promise<string | undefined> {
    const before = this.#spec;
    const replaced: Replaceable[] = [];
    for (const group of groups) {
      if (this.#isOver(number)) return undefined;
      const failures = await Promise.all(group.map((supervisor) => supervisor.replace(spec)));
      replaced.push(...group.filter((_, index) => failures[index] === undefined));
      const failure = failures.find((each) => each !== undefined);
      if (failure === undefined) continue;
      // If the old spec runs no longer, the supervisors report that.
      if (!this.#isOver(number)) for (const supervisor of replaced) await supervisor.replace(before);
      return failure;
    }
    this.#spec = spec;
    return undefined;
  }
}
