import type { ServedModel } from '../models/model-registry.ts';
import { ANONYMOUS, isInBackground } from '../system/caller.ts';
import type { DurableJob } from './job.ts';

/**
 * Takes the jobs of a model whose time slice is over from its runner, so that the model can leave. They wait for its next turn. A
 * turn lasts until one of its jobs has a token, or models that load more slowly than they compute would take turns for ever. Jobs in
 * the background are taken at once from the runner of a model that leaves for somebody who is not.
 */
export class ModelTurns {
  /** Models whose turn is over, and that may still have jobs; and whether it is over for those in the background alone. */
  readonly #over = new Map<ServedModel, boolean>();
  readonly #jobsOf: (served: ServedModel) => readonly DurableJob[];
  readonly #handOver: (job: DurableJob) => void;

  constructor(jobsOf: (served: ServedModel) => readonly DurableJob[], handOver: (job: DurableJob) => void) {
    this.#jobsOf = jobsOf;
    this.#handOver = handOver;
  }

  end(served: ServedModel, isInBackground: boolean): void {
    this.#over.set(served, isInBackground && this.#over.get(served) !== false);
    this.#handOverAll(served);
  }

  /** The job may have a token. */
  onNews({ hasProgress }: DurableJob): void {
    if (this.#over.size === 0 || !hasProgress) return;
    // The job's text has not heard of the token yet.
    queueMicrotask(() => {
      for (const served of this.#over.keys()) this.#handOverAll(served);
    });
  }

  #handOverAll(served: ServedModel): void {
    if (!served.isLeaving) {
      this.#over.delete(served);
      return;
    }
    const isBackgroundOnly = this.#over.get(served) === true;
    const running = this.#jobsOf(served).filter(
      (job) => job.job.state === 'running' && (!isBackgroundOnly || isOfBackground(job)),
    );
    if (!isBackgroundOnly && !running.some(({ hasProgress }) => hasProgress)) return;
    // Those that had no token come first in the next turn, since they wait first.
    for (const job of running) if (!job.hasProgress) this.#handOver(job);
    for (const job of running) if (job.job.state === 'running') this.#handOver(job);
  }
}

function isOfBackground({ record: { request } }: DurableJob): boolean {
  return isInBackground(request.caller ?? ANONYMOUS);
}
