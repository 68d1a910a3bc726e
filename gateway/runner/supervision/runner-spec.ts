import type { RunnerCommand } from '../process/process.ts';
import type { RunnerInfo } from '../runner.ts';
import type { Death } from './exit-policy.ts';

/** Why runners of a spec are no use any more. */
export interface RunnerFailure {
  readonly reason: string;
  readonly death: Death;
}

/** Which model runners are started for, and how. */
export interface RunnerSpec {
  /**
   * Awaited before each start of a runner. If it rejects, no runner is started until the model file changes, and the
   * error's message is the reason, its exitCode, if it has one, the status: the same as when the runner itself refuses the file. If it resolves with a spec, that one is
   * followed instead.
   */
  readonly prepare?: () => Promise<RunnerSpec | undefined>;
  /** Asked anew for each start. */
  readonly command: () => RunnerCommand;
  /** Where the runner finds its model: a runner that cannot load it is tried again when this file changes. */
  readonly modelPath: string;
  /** Of the model's files as they are now, read or not: another one when any of them has changed. Never rejects. */
  readonly modelIdentity: () => Promise<string>;
  /** Tokens that the model's context holds, by its file as it was last read: a runner that claims more is not believed. */
  readonly contextLength?: () => number | undefined;
  /** Called for every runner of this spec that becomes ready, also when its model file is not the one before. */
  readonly onReady?: (info: RunnerInfo) => void;
  /**
   * What is started instead when the device of such a runner failed, or they crash too often; nothing of that is held against
   * it. Undefined, or absent: the same again.
   */
  readonly fallback?: (failure: RunnerFailure) => RunnerSpec | undefined;
}
