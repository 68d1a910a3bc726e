import type { ConfigOf } from '../config/settings.ts';
import type { runnerSettings } from '../config.ts';
import type { ModelSlot } from '../model/model-slot.ts';
import type { RunnerCommand } from '../runner/process.ts';

/** Settings that are the runner's, under the names they have there too. */
const PASSED_ON = [
  'threads',
  'max-model-len',
  'max-num-seqs',
  'max-num-batched-tokens',
  'mixed-batches',
  'mixed-prefill-tokens',
  'block-size',
  'kv-cache-bytes',
  'memory-bytes',
  'kv-cache-type',
  'sandbox',
  'record',
  'record-max-bytes',
] as const satisfies (keyof typeof runnerSettings)[];

/** How the runner is started: a line that works by hand as well. */
export function runnerCommand(config: ConfigOf<typeof runnerSettings>, slot: ModelSlot): RunnerCommand {
  const args = ['serve', '--model', slot.path];
  if (slot.current !== undefined) args.push('--architecture', slot.current.architecture);
  for (const name of PASSED_ON) {
    const value = config[name];
    if (value !== undefined) args.push(`--${name}`, String(value));
  }
  return { file: config.runner, args };
}
