import { isDeepStrictEqual } from 'node:util';
import type { Config } from '../config.ts';
import { PASSED_ON, PASSED_ON_TO_CPU, PASSED_ON_TO_CUDA } from './runner-command.ts';

/** What a runner started anew can be given; everything else is the gateway's, until that is started anew. */
const APPLIED: readonly (keyof Config)[] = [
  'model',
  'runner',
  'backend',
  'cuda-runner',
  ...PASSED_ON_TO_CPU,
  ...PASSED_ON_TO_CUDA,
  ...PASSED_ON,
];

export interface Reloaded {
  readonly config: Config;
  /** Settings that have changed and stay as they were. */
  readonly notApplied: readonly string[];
}

/** The settings of now with those of the runner as they are said to be next. */
export function reload(now: Config, next: Config): Reloaded {
  const names = Object.keys({ ...now, ...next }) as (keyof Config)[];
  const changed = names.filter((name) => !isDeepStrictEqual(now[name], next[name]));
  const applied = Object.fromEntries(APPLIED.map((name) => [name, next[name]]));
  return {
    config: { ...now, ...applied },
    notApplied: changed.filter((name) => !APPLIED.includes(name)),
  };
}
