import { ApiError, shown } from '../../errors/api-error.ts';
import { cancelled } from '../../runner/runner.ts';

/** A request under the id that its client gave it. */
export interface Job {
  /** Aborted when the client cancels the job. The reason is the error that it gets. */
  readonly signal: AbortSignal;
  /** Frees the id. Must be called when the job's stream has ended, however it ended, or when the journal keeps the job. */
  finish(): void;
}

interface Running {
  readonly controller: AbortController;
  /** Resolves when the journal keeps the job, or when nothing of it is left; undefined if it is not durable. */
  readonly kept: Promise<void> | undefined;
}

/**
 * The jobs whose streams have not ended, so that POST /cancel finds them, also while they wait for their model. An id belongs
 * to its caller: other callers may use the same id for jobs of their own, and cannot find or cancel this one. A job stays until
 * its client has read the end or has left, so the server's bound on connections bounds the jobs.
 */
export class Jobs {
  readonly #running = new Map<string, Running>();

  /** Registers a job. Throws a 409 if a job of this caller with this id runs. */
  start(caller: string, jobId: string, isDurable: boolean): Job {
    const name = nameOf(caller, jobId);
    if (this.#running.has(name)) throw jobIdInUse(jobId);
    let onKept = (): void => {};
    const kept = new Promise<void>((resolve) => (onKept = resolve));
    const running = { controller: new AbortController(), kept: isDurable ? kept : undefined };
    this.#running.set(name, running);
    return {
      signal: running.controller.signal,
      finish: () => {
        // A later job may have the id by now.
        if (this.#running.get(name) === running) this.#running.delete(name);
        onKept();
      },
    };
  }

  /**
   * Stops the job if it runs. Otherwise nothing is to be done, and the client has what it wants. Resolves when the journal
   * knows, if it is to keep the job. Returns whether a job ran that no journal keeps.
   */
  async cancel(caller: string, jobId: string): Promise<boolean> {
    const running = this.#running.get(nameOf(caller, jobId));
    running?.controller.abort(cancelled());
    await running?.kept;
    return running !== undefined && running.kept === undefined;
  }
}

export function jobIdInUse(jobId: string): ApiError {
  const message = `job_id ${JSON.stringify(shown(jobId))} is in use by a running job, or by a durable one that is kept; wait for its end or choose another`;
  return new ApiError({ status: 409, code: 'job_id_in_use', message, param: 'job_id' });
}

/** A caller is hexadecimal digits or empty, so no two pairs make the same name. */
function nameOf(caller: string, jobId: string): string {
  return `${caller} ${jobId}`;
}
