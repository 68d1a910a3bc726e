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

/** As they are now. numReusableBlocks: free ones whose content is still known. memoryBytes: of the process, without files; 0: unknown. */
export const schedulerGauges = [
  'numWaiting',
  'numRunning',
  'numPaused',
  'numFreeBlocks',
  'numReusableBlocks',
  'memoryBytes',
] as const;

export type SchedulerStats = SchedulerCounters & Readonly<Record<(typeof schedulerGauges)[number], number>>;

export function statsOf(value: (name: keyof SchedulerStats) => number): SchedulerStats {
  const gauges = schedulerGauges.map((name) => [name, value(name)] as const);
  return {
    ...countersOf(value),
    ...(Object.fromEntries(gauges) as Record<(typeof schedulerGauges)[number], number>),
  };
}

/** The counters of all runners there were, so that what is shown of them never goes back. */
export class CountersOverLives {
  #past = zeros;
  #present = zeros;
  /** Of both, once it was asked for: each request asks, a runner tells once a step. */
  #sum: SchedulerCounters | undefined;

  /** What the present runner has counted. */
  update(counters: SchedulerCounters): void {
    this.#present = counters;
    this.#sum = undefined;
  }

  /** The present runner is gone: the next one begins at 0. What it counted since its last word is lost. */
  endLife(): void {
    this.#past = this.sum();
    this.#present = zeros;
    this.#sum = undefined;
  }

  sum(): SchedulerCounters {
    this.#sum ??= countersOf((name) => this.#past[name] + this.#present[name]);
    return this.#sum;
  }
}

export function countersOf(value: (name: keyof SchedulerCounters) => number): SchedulerCounters {
  const entries = schedulerCounters.map((name) => [name, value(name)] as const);
  return Object.fromEntries(entries) as Record<keyof SchedulerCounters, number>;
}

const zeros = countersOf(() => 0);
