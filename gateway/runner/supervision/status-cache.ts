import type { Hello, Ready, Stats } from '../protocol/messages.ts';
import {
  CountersOverLives,
  type SchedulerCounters,
  type SchedulerStats,
} from '../protocol/scheduler-stats.ts';
import type { RunnerInfo } from '../runner.ts';

/** What runners have told of themselves: the one there is, as last heard, and all there were together. */
export class RunnerStatusCache {
  readonly #counters = new CountersOverLives();
  #hello: Hello | undefined;
  #info: RunnerInfo | undefined;
  #stats: SchedulerStats | undefined;
  /** 0 to 1 while a model loads. */
  loadProgress: number | undefined;
  numFreeBlocks: number | undefined;

  /** Of the last one that was started. */
  get hello(): Hello | undefined {
    return this.#hello;
  }

  /** Of the one that is ready now, or was last. */
  get info(): RunnerInfo | undefined {
    return this.#info;
  }

  /** Of the one that serves. */
  get stats(): SchedulerStats | undefined {
    return this.#stats;
  }

  get counters(): SchedulerCounters {
    return this.#counters.sum();
  }

  onSpawned(): void {
    this.#hello = undefined;
  }

  onHello(hello: Hello): void {
    this.#hello = hello;
  }

  onReady({ type: _, ...ready }: Ready): RunnerInfo {
    if (this.#hello === undefined) throw new Error('A runner was ready before its Hello.');
    const { kind, build, numericsId, sandbox } = this.#hello;
    this.#info = { kind, build, numericsId, sandbox, ...ready };
    this.loadProgress = undefined;
    // The heartbeats of a load know of no blocks.
    this.numFreeBlocks = ready.numBlocks;
    return this.#info;
  }

  onStats({ type: _, ...stats }: Stats): void {
    this.#stats = stats;
    this.#counters.update(stats);
  }

  /** May be called more than once for one runner. */
  onLost(): void {
    this.loadProgress = undefined;
    this.numFreeBlocks = undefined;
    this.#stats = undefined;
    this.#counters.endLife();
  }
}
