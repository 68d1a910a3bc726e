/** Asks a runner how much memory a model needs when it is served with these settings. */
import type { Config } from '../config/config.ts';
import { backendOf, type RunnerConfig } from '../config/runner-settings.ts';
import type { MemoryNeed } from '../models/model-lifecycle.ts';
import { DeviceInquiry, notRunnable, usableDevice } from '../runner/backends/devices.ts';
import { inspection } from '../runner/backends/model-memory.ts';

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
] as const satisfies (keyof RunnerConfig)[];

/** Returns a sentence if the model cannot be loaded, however much memory there is. */
export async function memoryNeedOf(
  path: string,
  config: RunnerConfig & Pick<Config, 'runners'>,
): Promise<MemoryNeed | string> {
  const kind = await kindOf(config);
  const args = ['inspect', '--json', '--model', path];
  for (const name of ASKED) if (config[name] !== undefined) args.push(`--${name}`, String(config[name]));
  if (kind === 'cuda') args.push('--gpu-device', String(config['gpu-device'] ?? 0));
  const told = await inspection(kind === 'cuda' ? config['cuda-runner'] : config.runner, args);
  if (typeof told === 'string') return told;
  const { memory_bytes, weights_bytes = 0, available_bytes, obstacle } = told;
  // Too little free memory now is no obstacle, since other models may be unloaded.
  if (memory_bytes === undefined)
    return obstacle ?? `The runner did not report how much memory ${path} needs.`;
  const bytes = kind === 'cpu' ? (config['memory-bytes'] ?? memory_bytes) : memory_bytes;
  // The runners share the weights.
  const numOthers = config.runners - 1;
  return { kind, bytes: bytes + numOthers * (bytes - weights_bytes), availableBytes: available_bytes };
}

/** The kind of the runner that will be tried first. */
async function kindOf(config: RunnerConfig): Promise<'cpu' | 'cuda'> {
  const requested = backendOf(config);
  if (requested === 'cpu') return 'cpu';
  if (requested === 'cuda') return 'cuda';
  const file = config['cuda-runner'];
  if (notRunnable(file) !== undefined) return 'cpu';
  const devices = await new DeviceInquiry(file).ask(new AbortController().signal);
  return typeof usableDevice(devices, config['gpu-device'] ?? 0) === 'string' ? 'cpu' : 'cuda';
}
