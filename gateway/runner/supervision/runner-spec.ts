import type { RunnerCommand } from '../process/process.ts';
import type { BackendStatus, RunnerInfo } from '../runner.ts';
import type { Death } from './exit-policy.ts';

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

/** What a launcher needs to know about the model that it starts runners for. ModelSlot implements it. */
export interface LaunchedModel {
  readonly path: string;
  /** The model as it was last read; undefined before the first read, and while its file cannot be used. */
  readonly current: LaunchFacts | undefined;
  refresh(): Promise<void>;
  /** Identity of the model's files on disk now. Never rejects. */
  identity(): Promise<string>;
}

interface LaunchFacts {
  readonly architecture: string;
  readonly contextLength: number;
  /** Identity of the file that the model was read from (identityOf() in models/model.ts), and the device that holds it. */
  readonly file: string;
  readonly device: bigint;
}

/** The size of the KV cache of runners of one kind. */
export interface CacheSize {
  /** As RunnerInfo.kind. */
  readonly kind: string;
  readonly numBlocks: number;
}

/** Starts runners of one kind, for any model. */
export interface RunnerLauncher {
  /** cache: the size that runners of that kind are to have, unless the settings say one. */
  command(slot: LaunchedModel, cache: CacheSize | undefined): RunnerCommand;
  /** What is known about the choice of backend; absent: there was no choice. */
  status?(): BackendStatus;
  /**
   * Awaited before each start, with the model as it is now. Resolves with the launcher to use instead, if it is another one. Must not
   * reject.
   */
  prepare?(slot: Pick<LaunchedModel, 'current'>): Promise<RunnerLauncher | undefined>;
  onReady?(info: RunnerInfo): void;
  /** The launcher to use after a runner's device failed or its runners crashed too often; undefined: this one again. */
  fallback?(failure: RunnerFailure): RunnerLauncher | undefined;
  /** The launcher to use from now on, since the device computes wrong tokens; undefined: there is no other. */
  retire?(reason: string): RunnerLauncher | undefined;
  /** Another launcher takes over. This one stops waiting and probing until a runner of its own is ready again. */
  leave?(): void;
}

/**
 * The spec of runners that `launch` starts for the model in `slot`. onRead: the slot has read the model file as it is now, and a
 * runner is about to be started for it. planned: the cache of the first runner; absent: the runner decides.
 */
export function specOf(
  slot: LaunchedModel,
  launch: RunnerLauncher,
  events: { onRead(): void; onReady(info: RunnerInfo, launch: RunnerLauncher): void },
  planned?: CacheSize,
): Required<RunnerSpec> {
  const specBy = (next: RunnerLauncher | undefined) => next && specOf(slot, next, events, planned);
  // A runner that follows another one has its cache, however much memory is free now: it has room for every open stream.
  let cache = planned;
  let cacheOf: string | undefined;
  return {
    prepare: async () => {
      await slot.refresh();
      events.onRead();
      return specBy(await launch.prepare?.(slot));
    },
    command: () =>
      launch.command(slot, cacheOf === undefined || cacheOf === slot.current?.file ? cache : undefined),
    modelPath: slot.path,
    modelIdentity: () => slot.identity(),
    contextLength: () => slot.current?.contextLength,
    onReady: (info) => {
      cache = { kind: info.kind, numBlocks: info.numBlocks };
      cacheOf = slot.current?.file;
      events.onReady(info, launch);
      launch.onReady?.(info);
    },
    fallback: (failure) => specBy(launch.fallback?.(failure)),
  };
}
