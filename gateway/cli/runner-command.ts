import type { Config } from '../config/config.ts';
import type { RunnerConfig } from '../config/runner-settings.ts';
import type { RunnerCommand } from '../runner/process/process.ts';
import type { CacheSize, LaunchedModel } from '../runner/supervision/runner-spec.ts';
import { type HugePages, hugePages } from '../system/kernel.ts';

/** Settings of every kind of runner. The runners' flags have the same names. */
export const PASSED_ON = [
  'max-model-len',
  'max-num-seqs',
  'max-num-batched-tokens',
  'mixed-batches',
  'mixed-prefill-tokens',
  'speculation',
  'block-size',
  'kv-cache-bytes',
  'num-kvcache-blocks',
  'kv-cache-type',
  'quantize',
  'sandbox',
  'record',
  'record-max-bytes',
] as const satisfies (keyof RunnerConfig)[];

/** Settings of one kind of runner. */
export const PASSED_ON_TO_CPU = [
  'threads',
  'numa',
  'isa',
  'activations',
  'memory-bytes',
  'tensor-parallel-size',
] as const satisfies (keyof RunnerConfig)[];
export const PASSED_ON_TO_CUDA = [
  'gpu-device',
  'tensor-parallel-size',
  'all-gather-backend',
  'enforce-eager',
  'gpu-memory-utilization',
] as const satisfies (keyof RunnerConfig)[];

/** runners: how many runners serve the model; one by default. */
export type LaunchConfig = RunnerConfig & Partial<Pick<Config, 'runners'>>;

/** Settings of each kind of runner that say how large the KV cache is. */
const CACHE_SIZES = {
  cpu: ['kv-cache-bytes', 'num-kvcache-blocks', 'memory-bytes'],
  cuda: ['kv-cache-bytes', 'num-kvcache-blocks', 'gpu-memory-utilization'],
} as const satisfies Record<'cpu' | 'cuda', (keyof RunnerConfig)[]>;

/** The command that starts a runner of this kind. It also works by hand. */
export function runnerCommand(
  kind: 'cpu' | 'cuda',
  config: LaunchConfig,
  slot: LaunchedModel,
  cache?: CacheSize,
): RunnerCommand {
  const args = ['serve', '--model', slot.path];
  if (slot.current !== undefined) {
    const { architecture, file, device } = slot.current;
    // The runner must load the file that was read, not a file that has replaced it.
    args.push('--architecture', architecture, '--expect-file', `${file}-${device}`);
  }
  const pass = (name: keyof RunnerConfig): void => {
    const value = config[name];
    if (value !== undefined) args.push(`--${name}`, String(value));
  };
  if (kind === 'cpu') {
    for (const name of PASSED_ON_TO_CPU) pass(name);
  } else {
    pass('gpu-device');
    pass('tensor-parallel-size');
    pass('all-gather-backend');
    pass('gpu-memory-utilization');
    if (config['enforce-eager'] === 'on') args.push('--enforce-eager');
    args.push('--start-times');
  }
  const { runners = 1 } = config;
  if (runners > 1) args.push('--runners', String(runners));
  for (const name of PASSED_ON) pass(name);
  const kvKey = JSON.stringify([config.runner, ...args]);
  if (cache?.kind === kind && CACHE_SIZES[kind].every((name) => config[name] === undefined))
    args.push('--num-kvcache-blocks', String(cache.numBlocks));
  if (kind === 'cuda') return { file: config['cuda-runner'], args };
  // A replay begins with an empty cache, so the runner that is recorded does too.
  const keepsKv = config['keep-kv'] !== 'off' && config.record === undefined;
  return {
    file: config.runner,
    args,
    ...(keepsKv ? { kvKey } : {}),
    // Of several ranks each packs its own part.
    ...((config['tensor-parallel-size'] ?? 1) === 1 && sharesWeights(runners, hugePages())
      ? { weightsKey: weightsKey(config, slot) }
      : {}),
  };
}

/**
 * Whether the runners of a model share its weights. In small pages shared ones make tokens some 8 % slower than a single
 * runner's own, which are in huge pages.
 */
export function sharesWeights(numRunners: number, { shared_setting, for_weights }: HugePages): boolean {
  return numRunners > 1 || for_weights || shared_setting === null;
}

/** Runners with the same key pack the same bytes. */
function weightsKey({ runner, quantize }: RunnerConfig, { path, current }: LaunchedModel): string {
  return JSON.stringify([runner, path, current?.file, String(current?.device), quantize]);
}
