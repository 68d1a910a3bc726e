/** What a runner reports once a second about its scheduler and its memory: Stats in proto/runner.proto. */

/** Counters start at 0 with the runner and never decrease. */
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

/**
 * Current values. numReusableBlocks: free blocks whose content is still known. memoryBytes: memory of the process without
 * mapped files; 0: unknown.
 */
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

/** Sums the counters of all runners in one place, so that the totals shown never decrease. */
export class CountersOverLives {
  #past = zeros;
  #present = zeros;
  /** The cached sum of both: it is read more often than it changes. */
  #sum: SchedulerCounters | undefined;

  update(counters: SchedulerCounters): void {
    this.#present = counters;
    this.#sum = undefined;
  }

  /** The current runner has ended and the next one counts from 0. What it counted after its last Stats is lost. */
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

export function countersOf<Value>(
  value: (name: keyof SchedulerCounters) => Value,
): Record<keyof SchedulerCounters, Value> {
  const entries = schedulerCounters.map((name) => [name, value(name)] as const);
  return Object.fromEntries(entries) as Record<keyof SchedulerCounters, Value>;
}

const zeros = countersOf(() => 0);
