import { constants } from 'node:os';
import { ExitCode } from '../errors/exit-code.ts';
import type { LoadFacts } from '../runner/supervision/exit-policy.ts';
import type { RunnerEvent } from '../runner/supervision/runner-event.ts';

/** Why no runner got ready. */
export interface LoadFailure extends LoadFacts {
  /** A sentence. */
  readonly reason: string;
  /** The runner's; of one that a signal ended, as a shell has it. */
  readonly exitCode: number;
}

/** How the first load of a model comes out, told by the events of its runners. */
export class FirstLoad {
  #exit: LoadFailure | undefined;
  #isOver = false;
  #fail: (failure: LoadFailure) => void = () => {};
  /** Resolves when the first runner is dead before one was ready, and no other backend makes up for it; else never. */
  readonly failed = new Promise<LoadFailure>((resolve) => {
    this.#fail = resolve;
  });

  observe(event: RunnerEvent): void {
    if (this.#isOver) return;
    switch (event.event) {
      case 'model_load_complete':
        this.#isOver = true;
        break;
      case 'runner_exited':
        this.#exit = { reason: String(event.reason), exitCode: exitCodeOf(event), ...factsOf(event) };
        break;
      // Neither follows a death that another backend makes up for.
      case 'runner_restarting':
      case 'model_failed':
        this.#isOver = true;
        this.#fail(this.#failureOf(event));
        break;
    }
  }

  /** A start that could not even be prepared has no exit, and says its own status. */
  #failureOf(event: RunnerEvent): LoadFailure {
    const { exitCode } = event;
    const reason = String(event.reason);
    if (typeof exitCode === 'number') return { reason, exitCode, ...factsOf(event) };
    return this.#exit ?? { reason, exitCode: ExitCode.internal };
  }
}

function factsOf({ device, requiredBytes, availableBytes }: Partial<Record<string, unknown>>): LoadFacts {
  return {
    ...(typeof device === 'string' ? { device } : {}),
    ...(typeof requiredBytes === 'number' ? { requiredBytes } : {}),
    ...(typeof availableBytes === 'number' ? { availableBytes } : {}),
  };
}

/** Never 0: it is a failure. */
function exitCodeOf({ code, signal }: Partial<Record<string, unknown>>): number {
  if (typeof code === 'number' && code !== 0) return code;
  const number = typeof signal === 'string' ? constants.signals[signal as NodeJS.Signals] : undefined;
  if (number !== undefined) return 128 + number;
  return code === 0 ? ExitCode.internal : ExitCode.system;
}
