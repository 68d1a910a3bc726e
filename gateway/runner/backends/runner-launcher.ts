import type { RunnerCommand } from '../process/process.ts';
import type { BackendStatus, RunnerInfo } from '../runner.ts';
import type { RunnerFailure, RunnerSpec } from '../supervision/runner-spec.ts';

/** The model that runners are started for, as far as they are concerned: a ModelSlot. */
export interface LaunchedModel {
  readonly path: string;
  /** As last read; undefined before the first time, and while its file cannot be used. */
  readonly current: LaunchFacts | undefined;
  refresh(): Promise<void>;
  /** Of its files as they are now. Never rejects. */
  identity(): Promise<string>;
}

interface LaunchFacts {
  readonly architecture: string;
  readonly contextLength: number;
  /** See identityOf in models/model.ts. */
  readonly file: string;
  readonly device: bigint;
}

/** How runners of one kind are started, whatever the model. */
export interface RunnerLauncher {
  command(slot: LaunchedModel): RunnerCommand;
  /** What is known of the choice between backends; absent: there was none. */
  status?(): BackendStatus;
  /** Awaited before each start; resolves with what is started instead, if it is another one. Must not reject. */
  prepare?(): Promise<RunnerLauncher | undefined>;
  onReady?(info: RunnerInfo): void;
  /** What is started instead of a runner whose device failed, or that crashed too often; undefined: the same again. */
  fallback?(failure: RunnerFailure): RunnerLauncher | undefined;
  /** Something else is about to be started: it waits for nothing any more, until a runner of it is ready again. */
  leave?(): void;
}

export interface SpecEvents {
  /** The slot has the model as its file is now, and a runner is about to be started for it. */
  onRead?(): void;
  onReady(info: RunnerInfo, launch: RunnerLauncher): void;
}

/** The spec of runners that are started so for this model. */
export function specOf(
  slot: LaunchedModel,
  launch: RunnerLauncher,
  events: SpecEvents,
): Required<RunnerSpec> {
  const specBy = (next: RunnerLauncher | undefined) => next && specOf(slot, next, events);
  return {
    prepare: async () => {
      await slot.refresh();
      events.onRead?.();
      return specBy(await launch.prepare?.());
    },
    command: () => launch.command(slot),
    modelPath: slot.path,
    modelIdentity: () => slot.identity(),
    contextLength: () => slot.current?.contextLength,
    onReady: (info) => {
      events.onReady(info, launch);
      launch.onReady?.(info);
    },
    fallback: (failure) => specBy(launch.fallback?.(failure)),
  };
}
