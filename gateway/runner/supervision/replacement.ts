import type { RunnerSpec } from './runner-spec.ts';

/** One runner's replacement by another, from the request for it until the new runner is ready or has failed. */
export class Replacement {
  /** The spec to go back to on failure. */
  readonly before: RunnerSpec;
  /** The old runner was told to end and has not died yet. */
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
    // Memory need not hold two models, so all runners are replaced at once.
    const isOtherModel = spec.modelPath !== this.#spec.modelPath;
    const replaced = isOtherModel
      ? this.#replaceAll(spec, number)
      : this.#last.then(() => this.#replaceEach(spec, number));
    this.#last = replaced;
    return replaced.then((failure) => (number === this.#number ? failure : this.#last));
  }

  /** Replaces no further runner. */
  stop(): void {
    this.#isStopping = true;
  }

  #isOver(number: number): boolean {
    return this.#isStopping || number !== this.#number;
  }

  async #replaceEach(spec: RunnerSpec, number: number): Promise<string | undefined> {
    const before = this.#spec;
    const replaced: Replaceable[] = [];
    for (const supervisor of this.#supervisors) {
      if (this.#isOver(number)) return undefined;
      const failure = await supervisor.replace(spec);
      if (failure !== undefined) {
        if (!this.#isOver(number)) await goBack(replaced, before);
        return failure;
      }
      replaced.push(supervisor);
    }
    this.#spec = spec;
    return undefined;
  }

  async #replaceAll(spec: RunnerSpec, number: number): Promise<string | undefined> {
    const before = this.#spec;
    const failures = await Promise.all(this.#supervisors.map((supervisor) => supervisor.replace(spec)));
    const failure = failures.find((each) => each !== undefined);
    if (failure === undefined) {
      this.#spec = spec;
      return undefined;
    }
    const replaced = this.#supervisors.filter((_, index) => failures[index] === undefined);
    if (!this.#isOver(number)) await goBack(replaced, before);
    return failure;
  }
}

/**
 * Replaces runners of the new spec by ones of the old spec, which is known to run. If it runs no longer, their supervisors
 * report that.
 */
async function goBack(supervisors: readonly Replaceable[], spec: RunnerSpec): Promise<void> {
  for (const supervisor of supervisors) await supervisor.replace(spec);
}
