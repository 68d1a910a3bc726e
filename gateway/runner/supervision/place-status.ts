import type { Failure, Hello, Notice, Ready } from '../protocol/from-runner.ts';
import {
  CountersOverLives,
  type SchedulerCounters,
  type SchedulerStats,
} from '../protocol/scheduler-stats.ts';
import type { RunnerInfo, RunnerState } from '../runner.ts';

/**
 * The state of one place for runners, and what its runners have reported: the last messages of the current one, and counters
 * summed over all of them.
 */
export class PlaceStatus {
  state: Exclude<RunnerState, 'stopping'> = 'starting';
  /** A sentence; undefined when the state is ready. */
  reason: string | undefined = 'The runner is starting.';
  /** Too many starts have failed, so requests are refused instead of waiting for the next runner. */
  #isRefusing = false;
  readonly #counters = new CountersOverLives();
  hello: Hello | undefined;
  /** Facts about the runner that is ready now, or was last. */
  info: RunnerInfo | undefined;
  stats: SchedulerStats | undefined;
  /** 0 to 1 while a model loads. */
  loadProgress: number | undefined;
  numFreeBlocks: number | undefined;

  /** Whether requests are admitted: a runner is ready, or the next one is worth waiting for. */
  get takesRequests(): boolean {
    return this.state === 'ready' || (this.state === 'recovering' && !this.#isRefusing);
  }

  get isStarting(): boolean {
    return this.state === 'starting' || this.state === 'recovering';
  }

  /** Whether a runner that is not ready yet is worth waiting for. */
  get isComing(): boolean {
    return this.isStarting && !this.#isRefusing;
  }

  get counters(): SchedulerCounters {
    return this.#counters.sum();
  }

  onReady({ type: _, weightsDescriptor: __, numericsId, ...ready }: Ready): RunnerInfo {
    if (this.hello === undefined) throw new Error('A runner was ready before its Hello.');
    const { kind, build, sandbox } = this.hello;
    this.info = { kind, build, numericsId: numericsId || this.hello.numericsId, sandbox, ...ready };
    this.state = 'ready';
    this.reason = undefined;
    this.#isRefusing = false;
    this.loadProgress = undefined;
    // Heartbeats during the load report no free blocks.
    this.numFreeBlocks = ready.numBlocks;
    return this.info;
  }

  onNotice(notice: Exclude<Notice, Ready | Failure>): void {
    switch (notice.type) {
      case 'hello':
        this.hello = notice;
        break;
      case 'load_progress': {
        const { loadedBytes, totalBytes } = notice;
        if (totalBytes > 0) this.loadProgress = Math.min(1, loadedBytes / totalBytes);
        break;
      }
      case 'heartbeat':
        this.numFreeBlocks = notice.numFreeBlocks;
        break;
      case 'stats': {
        const { type: _, ...stats } = notice;
        this.stats = stats;
        this.#counters.update(stats);
      }
    }
  }

  /** A place that has had a runner that was ready is "recovering", not "starting", however many starts have failed since. */
  refuseUntilReady(): void {
    this.state = this.info === undefined ? 'starting' : 'recovering';
    this.#isRefusing = true;
  }

  /** A runner that is ready is no longer. Does nothing if none is. */
  recover(reason: string): void {
    if (this.state !== 'ready') return;
    this.state = 'recovering';
    this.reason = reason;
  }

  /** May be called more than once for one runner. */
  onLost(): void {
    this.recover('The runner ended unexpectedly; another one will start.');
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
