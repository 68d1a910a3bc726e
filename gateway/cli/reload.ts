import { isDeepStrictEqual } from 'node:util';
import { type Config, hasSeveralModels, manyRunnersFaults } from '../config/config.ts';
import { refuse } from '../errors/exit-code.ts';
import type { KeyFiles } from '../server/guard/api-keys.ts';
import type { Notifier } from '../systemd/notifier.ts';
import type { Log } from '../telemetry/log.ts';
import { PASSED_ON, PASSED_ON_TO_CPU, PASSED_ON_TO_CUDA } from './runner-command.ts';

/** What a runner started anew can be given; everything else is the gateway's, until that is started anew. */
const APPLIED: readonly (keyof Config)[] = [
  'model',
  'models-dir',
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

/** The settings of now with those of the runner as they are said to be next. UsageError if the runners there are cannot have them. */
export function reload(now: Config, next: Config): Reloaded {
  const names = Object.keys({ ...now, ...next }) as (keyof Config)[];
  const changed = names.filter((name) => !isDeepStrictEqual(now[name], next[name]));
  // One model is served in another way than several, from the start on.
  const isOtherKind = hasSeveralModels(now) !== hasSeveralModels(next);
  const appliedNames = isOtherKind
    ? APPLIED.filter((name) => name !== 'model' && name !== 'models-dir')
    : APPLIED;
  const applied = Object.fromEntries(appliedNames.map((name) => [name, next[name]]));
  const config: Config = { ...now, ...applied };
  // As many runners as before, with other settings beside them.
  refuse(manyRunnersFaults(config, (name) => `--${name}`));
  return {
    config,
    notApplied: changed.filter((name) => !appliedNames.includes(name)),
  };
}

/** Keys that cannot be read are no reason to lock everybody out: then those of before count. */
export function reloadKeys(keys: KeyFiles | undefined, log: Pick<Log, 'info' | 'error'>): void {
  if (keys === undefined) return;
  try {
    const { numClients, numAdmins } = keys.readAgain();
    log.info({ event: 'keys_reloaded', num_keys: numClients, num_admin_keys: numAdmins });
  } catch (error) {
    log.error({
      event: 'keys_unusable',
      msg: `${(error as Error).message} The keys that were read before count on.`,
    });
  }
}

/** Does a reload; systemd hears of its beginning and of its end, also of one that fails. */
export function announced<Result>(
  notifier: Notifier | undefined,
  reload: () => Promise<Result>,
): Promise<Result> {
  const end = notifier?.reloading();
  try {
    return reload().finally(end);
  } catch (error) {
    end?.();
    throw error;
  }
}
