import type { ModelChange, RunnerStatus } from '../runner/runner.ts';
import { retryAfterSec, STOPPING } from '../runner/supervision/supervisor.ts';

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

/** Whether a model is in memory, for clients and operators. */
export interface LoadState {
  readonly state: 'loaded' | 'loading' | 'unloaded' | 'failed';
  /** 0 to 1 while the model loads; undefined if unknown. */
  readonly progress: number | undefined;
  /** A sentence; undefined when the state is loaded. */
  readonly reason: string | undefined;
}

interface PhaseFacts {
  /** Undefined: the status of the runners tells. */
  readonly loadState?: LoadState['state'];
  /** Requests that were let in may go to the runners. */
  readonly isTaking?: true;
  readonly holdsMemory?: true;
  /** Why requests do not go to a runner, to be put after the model's name. */
  readonly reason?: string;
}

const taking: PhaseFacts = { isTaking: true, holdsMemory: true };
const unloaded: PhaseFacts = {
  loadState: 'unloaded',
  reason: 'is not loaded; a request for it loads it',
};

export const phaseFacts: Readonly<Record<ModelPhase, PhaseFacts>> = {
  unloaded,
  queued: { loadState: 'loading', reason: 'waits for memory' },
  loading: { loadState: 'loading', reason: 'is being loaded', holdsMemory: true },
  serving: taking,
  replacing: taking,
  leaving: taking,
  unloading: { ...unloaded, holdsMemory: true },
  failed: { loadState: 'failed' },
  stopped: { loadState: 'unloaded' },
};

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
  const facts = phaseFacts[phase];
  if (facts.isTaking) return undefined;
  if (phase === 'stopped') return { state: 'stopping', reason: STOPPING, retryAfterSec };
  if (phase === 'failed')
    return { state: 'failed', reason, retryAfterSec: Math.max(retryAfterSec, Math.ceil(retryInMs / 1000)) };
  const isPercent = phase === 'loading' && loadProgress !== undefined;
  const percent = isPercent ? `, ${Math.floor(loadProgress * 100)} % so far` : '';
  return { state: 'starting', reason: `The model ${name} ${facts.reason}${percent}.`, retryAfterSec };
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

/** Of a loaded model, by its runner's status. */
export function loadStateOf({ state }: RunnerStatus): LoadState['state'] {
  if (state === 'ready' || state === 'stopping') return 'loaded';
  return state === 'failed' ? 'failed' : 'loading';
}
