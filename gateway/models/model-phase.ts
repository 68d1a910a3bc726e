import { countersOf } from '../runner/protocol/scheduler-stats.ts';
import type { ModelChange, RunnerStatus } from '../runner/runner.ts';
import { retryAfterSec } from '../runner/supervision/supervisor.ts';

/**
 * The phases of a model, and the status that it reports in each. replacing: the next runners are to serve another file or by
 * another backend; open requests are finished first. leaving: it takes no more requests, and is unloaded when those that it
 * has are done.
 */
export type ModelPhase =
  | 'unloaded'
  | 'queued'
  | 'loading'
  | 'serving'
  | 'replacing'
  | 'leaving'
  | 'unloading'
  | 'failed'
  | 'stopped';

/** The phases in which requests that were let in may go to the runners. */
export const TAKING: readonly ModelPhase[] = ['serving', 'replacing', 'leaving'];

/** The phases in which a model takes memory. */
export const HOLDING: readonly ModelPhase[] = ['loading', ...TAKING, 'unloading'];

/** Whether a model is in memory, for clients and operators. */
export interface Residency {
  readonly state: 'loaded' | 'loading' | 'unloaded' | 'failed';
  /** 0 to 1 while the model loads; undefined if unknown. */
  readonly progress: number | undefined;
  /** A sentence; undefined when the state is loaded. */
  readonly reason: string | undefined;
}

interface Told {
  readonly name: string;
  /** 0 to 1; undefined if unknown. */
  readonly loadProgress: number | undefined;
  /** Why the last load failed, and how long until the next attempt is possible. */
  readonly reason: string;
  readonly retryInMs: number;
}

/** The fields that replace the runner's own status. Undefined in the phases in which requests may go to a runner. */
export function statusIn(
  phase: ModelPhase,
  { name, loadProgress, reason, retryInMs }: Told,
): Pick<RunnerStatus, 'state' | 'reason' | 'retryAfterSec'> | undefined {
  const starting = (sentence: string) =>
    ({ state: 'starting', reason: `The model ${name} ${sentence}`, retryAfterSec }) as const;
  switch (phase) {
    case 'serving':
    case 'replacing':
    case 'leaving':
      return undefined;
    case 'failed':
      return {
        state: 'failed',
        reason,
        retryAfterSec: Math.max(retryAfterSec, Math.ceil(retryInMs / 1000)),
      };
    case 'stopped':
      return { state: 'stopping', reason: 'The server is stopping.', retryAfterSec };
    case 'unloaded':
    case 'unloading':
      return starting('is not loaded; a request for it loads it.');
    case 'queued':
      return starting('waits for memory.');
    case 'loading':
      return starting(`is being loaded${percentOf(loadProgress)}.`);
  }
}

/** The status of a model that is being replaced. isOther: by another model, and not only by another backend. */
export function statusWhileReplacing(
  status: RunnerStatus,
  { phase, from, to }: ModelChange,
  isOther: boolean,
): RunnerStatus {
  const ofModel = isOther ? ` of the model ${from}` : '';
  const reason =
    phase === 'draining'
      ? `Open requests${ofModel} are being finished before ${isOther ? `the model ${to}` : 'another runner'} takes over.`
      : `The model ${to} is being loaded ${isOther ? `in place of ${from}` : 'by another runner'}.`;
  const changing = isOther ? { ...status, modelChange: { phase, from, to } } : status;
  // Requests that would be refused anyway still get the status that says why.
  if (status.state !== 'ready' && status.state !== 'recovering') return changing;
  return { ...changing, state: 'recovering', reason, retryAfterSec };
}

function percentOf(loadProgress: number | undefined): string {
  return loadProgress === undefined ? '' : `, ${Math.floor(loadProgress * 100)} % so far`;
}

const RESIDENCIES = {
  unloaded: 'unloaded',
  unloading: 'unloaded',
  stopped: 'unloaded',
  queued: 'loading',
  loading: 'loading',
  failed: 'failed',
  serving: undefined,
  replacing: undefined,
  leaving: undefined,
} as const;

/** status: the runner's, if there is one. */
export function residencyIn(phase: ModelPhase, status: RunnerStatus): Residency['state'] {
  return RESIDENCIES[phase] ?? residencyOf(status);
}

/** The residency of a loaded model, by its runner's status. */
export function residencyOf({ state }: RunnerStatus): Residency['state'] {
  if (state === 'ready' || state === 'stopping') return 'loaded';
  return state === 'failed' ? 'failed' : 'loading';
}

/** The status where there is no runner. */
export const absent: RunnerStatus = {
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
