import { isDeepStrictEqual } from 'node:util';
import { type Config, hasSeveralModels, manyRunnersFaults } from '../config/config.ts';
import { refuse } from '../errors/exit-code.ts';
import type { KeyFiles } from '../server/guard/api-keys.ts';
import type { Notifier } from '../systemd/notifier.ts';
import type { Log } from '../telemetry/log.ts';
import { PASSED_ON, PASSED_ON_TO_CPU, PASSED_ON_TO_CUDA } from './runner-command.ts';

/**
 * The settings that a restarted runner can be given. All others belong to the gateway and apply when the gateway itself is
 * restarted.
 */
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

interface Reloaded {
  readonly config: Config;
  /** Settings that have changed but are not applied. */
  readonly notApplied: readonly string[];
}

/**
 * Merges the runner's settings of `next` into the current settings. Throws UsageError if the number of runners does not allow
 * them.
 */
export function reload(now: Config, next: Config): Reloaded {
  const names = Object.keys({ ...now, ...next }) as (keyof Config)[];
  const changed = names.filter((name) => !isDeepStrictEqual(now[name], next[name]));
  // Serving one model and serving several work differently, which cannot change without a restart.
  const isOtherKind = hasSeveralModels(now) !== hasSeveralModels(next);
  const appliedNames = isOtherKind
    ? APPLIED.filter((name) => name !== 'model' && name !== 'models-dir')
    : APPLIED;
  const applied = Object.fromEntries(appliedNames.map((name) => [name, next[name]]));
  const config: Config = { ...now, ...applied };
  // The number of runners stays, so the new settings must be possible with it.
  refuse(manyRunnersFaults(config, (name) => `--${name}`));
  return {
    config,
    notApplied: changed.filter((name) => !appliedNames.includes(name)),
  };
}

/** Reads the keys again. If they cannot be read, the old keys stay valid, so that nobody is locked out. */
export function reloadKeys(keys: KeyFiles | undefined, log: Pick<Log, 'info' | 'error'>): void {
  if (keys === undefined) return;
  try {
    const { numClients, numAdmins } = keys.readAgain();
    log.info({ event: 'keys_reloaded', num_keys: numClients, num_admin_keys: numAdmins });
  } catch (error) {
    log.error({
      event: 'keys_unusable',
      msg: `${(error as Error).message} The keys read before stay valid.`,
    });
  }
}

/** Runs a reload and reports its beginning and its end to systemd, even if it fails. */
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
