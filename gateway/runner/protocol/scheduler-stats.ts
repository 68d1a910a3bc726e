/** What a runner tells once a second of its scheduler and its memory: Stats in proto/runner.proto. */

/** From 0 at the start of a runner; they never go back. */
export const schedulerCounters = [
  'numFinished',
  'numFailed',
  'numPreemptions',
  'numPrefillSteps',
  'numDecodeSteps',
  'numMixedSteps',
  'numPrefillSequences',
  'numDecodeSequences',
  'numPrefillTokens',
  'numCachedTokens',
  'numGeneratedTokens',
  'numDraftTokens',
  'numAcceptedDraftTokens',
  'busyUs',
] as const;

export type SchedulerCounters = Readonly<Record<(typeof schedulerCounters)[number], number>>;

export interface SchedulerStats extends SchedulerCounters {
  readonly numWaiting: number;
  readonly numRunning: number;
  readonly numPaused: number;
  readonly numFreeBlocks: number;
  /** Free ones whose content is still known. */
  readonly numReusableBlocks: number;
  /** Of the process, without files; 0: unknown. */
  readonly memoryBytes: number;
}

/** The counters of all runners there were, so that what is shown of them never goes back. */
export class CountersOverLives {
  #past = zeros;
  #present = zeros;

  /** What the present runner has counted. */
  update(counters: SchedulerCounters): void {
    this.#present = counters;
  }

  /** The present runner is gone: the next one begins at 0. What it counted since its last word is lost. */
  endLife(): void {
    this.#past = this.sum();
    this.#present = zeros;
  }

  sum(): SchedulerCounters {
    return countersOf((name) => this.#past[name] + this.#present[name]);
  }
}

export function countersOf(value: (name: keyof SchedulerCounters) => number): SchedulerCounters {
  const entries = schedulerCounters.map((name) => [name, value(name)] as const);
  return Object.fromEntries(entries) as Record<keyof SchedulerCounters, number>;
}

const zeros = countersOf(() => 0);
