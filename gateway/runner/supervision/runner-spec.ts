import type { RunnerCommand } from '../process/process.ts';
import type { RunnerInfo } from '../runner.ts';
import type { Death } from './exit-policy.ts';

/** Why a runner's device or crashes call for another spec. */
export interface RunnerFailure {
  readonly reason: string;
  readonly death: Death;
}

/** For which model runners are started, and how. */
export interface RunnerSpec {
  /**
   * Awaited before each start of a runner. If it rejects, no runner starts until the model file changes, as if the runner
   * itself had refused the file: the error's message is the reason, and its exitCode, if any, the status. After a shortage of
   * the machine it is called again soon. If it resolves with a spec, that spec is followed instead.
   */
  readonly prepare?: () => Promise<RunnerSpec | undefined>;
  /** Called for each start. */
  readonly command: () => RunnerCommand;
  /** Where the runner finds its model. A runner that cannot load the model is started again when the file changes. */
  readonly modelPath: string;
  /**
   * Identity of the model's files on disk now, whether read or not. It changes when any of the files changes. It rejects only
   * in a shortage of the machine.
   */
  readonly modelIdentity: () => Promise<string>;
  /**
   * Tokens in the model's context by the file as it was last read. A runner that claims more is killed for a protocol
   * violation.
   */
  readonly contextLength?: () => number | undefined;
  /** Called for every runner of this spec that becomes ready, even if the model file has changed since the last one. */
  readonly onReady?: (info: RunnerInfo) => void;
  /**
   * The spec to follow when the device of a runner failed or its runners crash too often. The supervisor starts it with clean
   * counts. Undefined or absent: this spec is kept.
   */
  readonly fallback?: (failure: RunnerFailure) => RunnerSpec | undefined;
}
