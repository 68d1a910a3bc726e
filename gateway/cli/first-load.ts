import { constants } from 'node:os';
import { ExitCode } from '../errors/exit-code.ts';
import { UnavailableError } from '../errors/thrown.ts';
import type { LoadFacts } from '../runner/supervision/exit-policy.ts';
import type { RunnerEvent } from '../runner/supervision/runner-event.ts';

/** Why no runner became ready. */
export interface LoadFailure extends LoadFacts {
  /** The reason, as a sentence. */
  readonly reason: string;
  /** The runner's exit status. For a runner that was ended by a signal, 128 plus the signal's number, as in a shell. */
  readonly exitCode: number;
}

/** Finds out from the events of its runners how the first load of a model ends. */
export class FirstLoad {
  #exit: LoadFailure | undefined;
  #isOver = false;
  #fail: (failure: LoadFailure) => void = () => {};
  /**
   * Resolves if the first runner dies before any runner was ready and no other backend replaces it. Otherwise it never settles.
   */
  readonly failed = new Promise<LoadFailure>((resolve) => {
    this.#fail = resolve;
  });

  /** Settles as `ready` does. Throws UnavailableError if the first load fails before. */
  orFailed<Ready>(ready: Promise<Ready>): Promise<Ready> {
    const failed = this.failed.then(({ reason }) => {
      throw new UnavailableError(reason);
    });
    return Promise.race([ready, failed]);
  }

  observe(event: RunnerEvent): void {
    if (this.#isOver) return;
    switch (event.event) {
      case 'model_load_complete':
        this.#isOver = true;
        break;
      case 'runner_exited':
        this.#exit = { reason: String(event.reason), exitCode: exitCodeOf(event), ...factsOf(event) };
        break;
      // Neither event follows a death after which another backend takes over.
      case 'runner_restarting':
      case 'model_failed':
        this.#isOver = true;
        this.#fail(this.#failureOf(event));
        break;
    }
  }

  /**
   * A start that failed before there was a process has no exit event, but may have a status of its own. If it is tried again,
   * the machine lacked something.
   */
  #failureOf(event: RunnerEvent): LoadFailure {
    const { exitCode } = event;
    const reason = String(event.reason);
    if (typeof exitCode === 'number') return { reason, exitCode, ...factsOf(event) };
    const isShortage = event.event === 'runner_restarting';
    return this.#exit ?? { reason, exitCode: isShortage ? ExitCode.system : ExitCode.internal };
  }
}

function factsOf({ device, requiredBytes, availableBytes }: Partial<Record<string, unknown>>): LoadFacts {
  return {
    ...(typeof device === 'string' ? { device } : {}),
    ...(typeof requiredBytes === 'number' ? { requiredBytes } : {}),
    ...(typeof availableBytes === 'number' ? { availableBytes } : {}),
  };
}

/** Never returns 0, because the load has failed. */
function exitCodeOf({ code, signal }: Partial<Record<string, unknown>>): number {
  if (typeof code === 'number' && code !== 0) return code;
  const number = typeof signal === 'string' ? constants.signals[signal as NodeJS.Signals] : undefined;
  if (number !== undefined) return 128 + number;
  return code === 0 ? ExitCode.internal : ExitCode.system;
}
