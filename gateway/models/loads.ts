import { CountersOverLives, countersOf } from '../runner/protocol/scheduler-stats.ts';
import type { RunnerStatus } from '../runner/runner.ts';
import type { Loaded } from './loaded-model.ts';

/** The status where there is no runner. */
const absent: RunnerStatus = {
  state: 'starting',
  reason: undefined,
  pid: undefined,
  restarts: 0,
  openRequests: 0,
  openTokens: 0,
  loadProgress: undefined,
  retryAfterSec: undefined,
  info: undefined,
  numFreeBlocks: undefined,
  stats: undefined,
  counters: countersOf(() => 0),
};

/** The times that one model is loaded, one after the other, with what is counted over all of them. */
export class Loads {
  #current: Loaded | undefined;
  readonly #counters = new CountersOverLives();
  #pastRestarts = 0;
  #ended: Promise<void> = Promise.resolve();

  get current(): Loaded | undefined {
    return this.#current;
  }

  begin(loaded: Loaded): void {
    this.#current = loaded;
  }

  /** Ends the current load, if there is one. */
  end(): Promise<void> {
    this.#ended = this.#ended.then(async () => {
      const loaded = this.#current;
      if (loaded === undefined) return;
      await loaded.stop(0);
      const { counters, restarts } = loaded.status();
      this.#counters.update(counters);
      this.#counters.endLife();
      this.#pastRestarts += restarts;
      this.#current = undefined;
    });
    return this.#ended;
  }

  /** Resolves when a load that is being ended has ended. */
  whenEnded(): Promise<void> {
    return this.#ended;
  }

  status(): RunnerStatus {
    const status = this.#current?.status() ?? absent;
    this.#counters.update(status.counters);
    const restarts = this.#pastRestarts + status.restarts;
    return { ...status, restarts, counters: this.#counters.sum() };
  }
}
