import type { Hello, Ready, Stats } from '../protocol/from-runner.ts';
import {
  CountersOverLives,
  type SchedulerCounters,
  type SchedulerStats,
} from '../protocol/scheduler-stats.ts';
import type { RunnerInfo } from '../runner.ts';

/** What the runners of one place have reported: the last messages of the current one, and counters summed over all of them. */
export class RunnerStatusCache {
  readonly #counters = new CountersOverLives();
  /** Hello of the runner that was started last. */
  hello: Hello | undefined;
  /** Facts about the runner that is ready now, or was last. */
  info: RunnerInfo | undefined;
  /** The last Stats of the runner that serves. */
  stats: SchedulerStats | undefined;
  /** 0 to 1 while a model loads. */
  loadProgress: number | undefined;
  numFreeBlocks: number | undefined;

  get counters(): SchedulerCounters {
    return this.#counters.sum();
  }

  onReady({ type: _, weightsDescriptor: __, ...ready }: Ready): RunnerInfo {
    if (this.hello === undefined) throw new Error('A runner was ready before its Hello.');
    const { kind, build, numericsId, sandbox } = this.hello;
    this.info = { kind, build, numericsId, sandbox, ...ready };
    this.loadProgress = undefined;
    // Heartbeats during the load report no free blocks.
    this.numFreeBlocks = ready.numBlocks;
    return this.info;
  }

  onStats({ type: _, ...stats }: Stats): void {
    this.stats = stats;
    this.#counters.update(stats);
  }

  /** May be called more than once for one runner. */
  onLost(): void {
    this.loadProgress = undefined;
    this.numFreeBlocks = undefined;
    this.stats = undefined;
    this.#counters.endLife();
  }
}

/** Percentages of a load that are logged: each once and in order, in whatever pieces the runner reports progress. */
const percents = [0, 25, 50, 75, 100] as const;

export class LoadLog {
  readonly #onPercent: (percent: number) => void;
  #next = 0;

  constructor(onPercent: (percent: number) => void) {
    this.#onPercent = onPercent;
  }

  /** fraction: 0 to 1 of the tensors' bytes. The caller reports 1 when the runner says Ready. */
  reached(fraction: number): void {
    for (;;) {
      const percent = percents[this.#next];
      if (percent === undefined || fraction * 100 < percent) return;
      this.#next += 1;
      this.#onPercent(percent);
    }
  }
}
