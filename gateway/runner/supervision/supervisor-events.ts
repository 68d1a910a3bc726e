import type { RunnerClient } from '../protocol/client.ts';
import type { RunnerInfo } from '../runner.ts';
import type { RunnerCrash } from './crash.ts';

/** Why open requests will not go on. */
export interface Failing {
  readonly reason: string;
  readonly isRetriable: boolean;
  /** Set when the runners are being held back: so long. */
  readonly retryAfterSec?: number;
}

export interface SupervisorEvents {
  /** A runner takes requests. isOnProbation: only one of them until onProven() is called. */
  onReady(client: RunnerClient, info: RunnerInfo, isOnProbation: boolean): void;
  onLetGo(): void;
  /** The runner is about to be ended, at the end of its step, to make room for another one. */
  onReplacing(): void;
  onLost(): void;
  /**
   * Before anything comes of it. areSuspects: what the runner computed may be the cause. ending: none that would do the same may
   * come, and why.
   */
  onDied(areSuspects: boolean, crash: Omit<RunnerCrash, 'requests'>, ending: Failing | undefined): void;
  /** No runner comes, or none soon. */
  onFailed(failing: Failing): void;
  /** Whether anybody still wants a runner. */
  isWanted(): boolean;
}
