import type { RunnerCommand } from '../process/process.ts';
import type { Death } from './exit-policy.ts';

/** A request that a runner had when it died: what was asked without what was said. */
export interface RequestInFlight {
  /** That runner's name for it, as in a recording. */
  readonly requestId: number;
  readonly numPromptTokens: number;
  readonly numEmitted: number;
  /** Runners that died on it before, without a token in between. */
  readonly crashCount: number;
  readonly maxTokens: number;
  readonly temperature: number;
  readonly topK: number;
  readonly topP: number;
  readonly minP: number;
  readonly repetitionPenalty: number;
  readonly presencePenalty: number;
  readonly frequencyPenalty: number;
  readonly numBiases: number;
  readonly numAllowedTokens: number;
  readonly numBannedTokens: number;
  readonly seed: bigint;
}

/** A death that nobody asked for. */
export interface RunnerCrash {
  /** Which of several runners, from 0; absent: there is one. */
  readonly runner?: number;
  readonly pid: number | undefined;
  /** 1 for the first runner of this gateway, or the first in this one's place. */
  readonly start: number;
  readonly command: RunnerCommand;
  readonly death: Death;
  /** What is done about it is decided by this sentence's cause. */
  readonly message: string;
  /** As far as it has said. */
  readonly build: string | undefined;
  readonly numericsId: string | undefined;
  readonly modelIdentity: string | undefined;
  readonly requests: readonly RequestInFlight[];
}

/** In a word, of which there are few: for counting. */
export function crashKind({ death: { verdict, exit, isOutOfMemory } }: RunnerCrash): string {
  if (verdict !== undefined) return verdict.kind;
  if (exit.spawnError !== undefined) return 'spawn';
  if (exit.signal === 'SIGKILL' && isOutOfMemory) return 'memory';
  return exit.signal ?? `status_${exit.code}`;
}
