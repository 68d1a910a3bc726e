/** Asks a runner how much memory a model needs when it is served with these settings. */
import type { Config } from '../config/config.ts';
import { backendOf, type RunnerConfig } from '../config/runner-settings.ts';
import type { MemoryNeed } from '../models/model-lifecycle.ts';
import { DeviceInquiry, notRunnable, usableDevice } from '../runner/backends/devices.ts';
import { inspection } from '../runner/backends/model-memory.ts';
import { stagedShare } from '../runner/kv-disk/messages.ts';

/** The settings that the memory depends on. `inspect` of a runner takes them like `serve`. */
const ASKED = [
  'max-model-len',
  'max-num-seqs',
  'max-num-batched-tokens',
  'mixed-batches',
  'mixed-prefill-tokens',
  'block-size',
  'kv-cache-bytes',
  'num-kvcache-blocks',
  'kv-cache-type',
  'quantize',
  'tensor-parallel-size',
] as const satisfies (keyof RunnerConfig)[];
const ASKED_OF_CPU = ['threads', 'numa', 'memory-bytes'] as const satisfies (keyof RunnerConfig)[];

/** More than any device has. */
const ALL_BYTES = 2 ** 50;

type Settings = RunnerConfig & Pick<Config, 'runners' | 'memory-budget-bytes' | 'kv-disk'>;

/** Returns a sentence if the model cannot be loaded, however much memory there is. */
export async function memoryNeedOf(path: string, config: Settings): Promise<MemoryNeed | string> {
  const kind = await kindOf(config);
  const need = await needOf(kind, path, config);
  // The backend auto has models that no device computes, encoders, computed on the CPU.
  if (typeof need === 'string' && kind === 'cuda' && backendOf(config) === 'auto')
    return needOf('cpu', path, config);
  return need;
}

async function needOf(kind: Kind, path: string, config: Settings): Promise<MemoryNeed | string> {
  const args = ['inspect', '--json', '--model', path];
  for (const name of kind === 'cpu' ? [...ASKED, ...ASKED_OF_CPU] : ASKED)
    if (config[name] !== undefined) args.push(`--${name}`, String(config[name]));
  const { runners } = config;
  const budgetBytes = config['memory-budget-bytes'];
  if (budgetBytes !== undefined) args.push('--available-bytes', String(budgetBytes));
  // Without a limit the first model would plan for all of the device.
  else if (kind === 'cuda') args.push('--available-bytes', String(ALL_BYTES));
  if (runners > 1) args.push('--runners', String(runners));
  const areShared = kind === 'cpu' && runners > 1 && (config['tensor-parallel-size'] ?? 1) === 1;
  if (areShared) args.push('--share-weights');
  if (kind === 'cuda') args.push('--gpu-device', String(config['gpu-device'] ?? 0));
  const told = await inspection(kind === 'cuda' ? config['cuda-runner'] : config.runner, args);
  if (typeof told === 'string') return told;
  const { memory_bytes, weights_bytes = 0, kv_cache_bytes = 0, available_bytes } = told;
  const { num_kvcache_blocks, obstacle } = told;
  // Too little free memory now is no obstacle, since other models may be unloaded.
  if (memory_bytes === undefined)
    return obstacle ?? `The runner did not report how much memory ${path} needs.`;
  // The plan counts what one runner takes and may take.
  const sharedBytes = areShared ? weights_bytes : 0;
  const ofAll = (ofOne: number) => sharedBytes + runners * Math.max(0, ofOne - sharedBytes);
  // All runners of the model read the blocks of the file out of one memory, which no runner's plan has.
  const isOnDisk = kind === 'cpu' && config['kv-disk'] !== undefined;
  const bytes = ofAll(memory_bytes) + (isOnDisk ? Math.floor(kv_cache_bytes * stagedShare) : 0);
  const availableBytes = available_bytes === undefined ? undefined : ofAll(available_bytes);
  const cache = num_kvcache_blocks === undefined ? undefined : { kind, numBlocks: num_kvcache_blocks };
  return { kind, bytes, availableBytes, cache };
}

type Kind = 'cpu' | 'cuda';

/** The kind of the runner that will be tried first. */
async function kindOf(config: RunnerConfig): Promise<Kind> {
  const requested = backendOf(config);
  if (requested === 'cpu') return 'cpu';
  if (requested === 'cuda') return 'cuda';
  const file = config['cuda-runner'];
  if (notRunnable(file) !== undefined) return 'cpu';
  const device = config['gpu-device'] ?? 0;
  const devices = await new DeviceInquiry(file, device).ask(new AbortController().signal);
  return typeof usableDevice(devices, device) === 'string' ? 'cpu' : 'cuda';
}
