import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import * as z from 'zod';
import { decimal, mebibytes, powerOfTwo, text, whole, wholeOr } from './kinds.ts';
import type { ConfigOf, SettingTable } from './settings.ts';

/**
 * The limits of the runner binaries, which check them again. `requests` and `promptTokens` limit what one runner holds at once.
 */
export const RUNNER_LIMITS = {
  threads: 256,
  runners: 16,
  maxModelLen: 2 ** 20,
  maxNumSeqs: 1024,
  maxNumBatchedTokens: 65_536,
  requests: 1024,
  promptTokens: 2 ** 22,
  gpuDevice: 255,
  blocks: 2 ** 32 - 1,
  minRecordBytes: 2 ** 16,
} as const;

export const BACKENDS = ['auto', 'cpu', 'cuda'] as const;
const SANDBOX_MODES = ['strict', 'auto', 'off'] as const;
const ISAS = ['portable', 'avx2', 'avxvnni', 'avx512vnni'] as const;
const ACTIVATION_TYPES = ['i8', 'f32'] as const;
const KV_CACHE_TYPES = ['f16', 'f32', 'q8_0'] as const;
/** The types that float matrices can be quantised to while they are loaded. */
const QUANTIZE_TYPES = ['q8_0', 'q4_0'] as const;

export const MODEL_MISSING = 'is missing: name a model file, or a model that `runnel pull` has fetched';

/** The settings of every command that starts a runner. */
export const runnerSettings = {
  model: {
    schema: z
      .string({ error: ({ input }) => (input === undefined ? MODEL_MISSING : 'must be text') })
      .min(1, 'must not be empty'),
    group: 'Model',
    value: 'MODEL',
    help: 'GGUF file, Hugging Face folder, or name of a pulled model',
  },
  backend: {
    schema: z.enum(BACKENDS, `must be one of ${BACKENDS.join(', ')}`).optional(),
    fallbackHelp: 'auto',
    group: 'Devices',
    value: BACKENDS.join('|'),
    help: 'Where the model is computed; auto: on a CUDA device if cuda-runner is built and a device answers, else on the CPU',
    aliases: {
      'use-cuda': {
        schema: z
          .union([z.boolean(), z.stringbool()], 'must be true or false')
          .transform((isUsed) => (isUsed ? 'auto' : undefined)),
        help: 'Same as --backend auto',
      },
    },
  },
  'gpu-device': {
    schema: wholeOr('cpu', -1, -1, RUNNER_LIMITS.gpuDevice).optional(),
    fallbackHelp: '0',
    group: 'Devices',
    value: 'N',
    help: 'Number of the CUDA device; -1 or cpu: the CPU',
  },
  runner: {
    schema: text(),
    fallback: fileURLToPath(new URL('../../build/cpu-runner', import.meta.url)),
    fallbackHelp: 'build/cpu-runner',
    group: 'Devices',
    value: 'FILE',
    help: 'Runner program for the CPU',
  },
  'cuda-runner': {
    schema: text(),
    fallback: fileURLToPath(new URL('../../build/cuda-runner', import.meta.url)),
    fallbackHelp: 'build/cuda-runner',
    group: 'Devices',
    value: 'FILE',
    help: 'Runner program for CUDA devices',
  },
  'enforce-eager': {
    schema: z.enum(['on', 'off'], 'must be on or off').optional(),
    fallbackHelp: 'off',
    group: 'Devices',
    value: 'on|off',
    help: 'Launch each CUDA kernel by itself instead of in CUDA graphs',
  },
  threads: {
    schema: whole(1, RUNNER_LIMITS.threads),
    fallback: Math.min(availableParallelism(), RUNNER_LIMITS.threads),
    fallbackHelp: 'one for each processor',
    group: 'Devices',
    value: 'N',
    help: 'Threads of each CPU runner',
  },
  isa: {
    schema: z.enum(ISAS, `must be one of ${ISAS.join(', ')}`).optional(),
    fallbackHelp: 'the best that the processor has',
    group: 'Devices',
    value: ISAS.join('|'),
    help: 'Instruction set of the CPU runner',
  },
  activations: {
    schema: z.enum(ACTIVATION_TYPES, `must be one of ${ACTIVATION_TYPES.join(', ')}`).optional(),
    fallbackHelp: 'i8',
    group: 'Devices',
    value: ACTIVATION_TYPES.join('|'),
    help: 'Activations in matrix products; i8: 8 bits, with a scale for each 32 values; f32: not rounded, slower, only on the CPU',
  },
  'max-model-len': {
    schema: whole(2, RUNNER_LIMITS.maxModelLen).optional(),
    fallbackHelp: "the model's context, or what the KV cache holds if that is less",
    group: 'Model',
    value: 'N',
    help: 'Maximum context: tokens of a prompt and its answer together',
  },
  'max-num-seqs': {
    schema: whole(1, RUNNER_LIMITS.maxNumSeqs).optional(),
    fallbackHelp: '64',
    group: 'Scheduling',
    value: 'N',
    help: 'Maximum sequences per step; each answer in progress is one',
  },
  'max-num-batched-tokens': {
    schema: whole(1, RUNNER_LIMITS.maxNumBatchedTokens).optional(),
    fallbackHelp: '256 on the CPU, 2048 with CUDA',
    group: 'Scheduling',
    value: 'N',
    help: 'Maximum tokens per step, prompt tokens included',
  },
  'mixed-batches': {
    schema: z.enum(['on', 'off'], 'must be on or off').optional(),
    fallbackHelp: 'on',
    group: 'Scheduling',
    value: 'on|off',
    help: 'Compute next tokens and parts of prompts in one step; off: steps compute prompts alone, and first',
  },
  'mixed-prefill-tokens': {
    schema: whole(1, RUNNER_LIMITS.maxNumBatchedTokens).optional(),
    fallbackHelp: '24',
    group: 'Scheduling',
    value: 'N',
    help: 'Tokens of each waiting prompt in a step with 8 next tokens, and in proportion in other steps',
  },
  speculation: {
    schema: z.enum(['on', 'off'], 'must be on or off').optional(),
    fallbackHelp: 'on with the CPU, off with CUDA',
    group: 'Scheduling',
    value: 'on|off',
    help: 'N-gram speculative decoding: several tokens per step where an answer repeats earlier text; the tokens stay the same',
  },
  'block-size': {
    schema: powerOfTwo(8, 256).optional(),
    fallbackHelp: '32 on the CPU, 64 with CUDA',
    group: 'KV cache',
    value: 'N',
    help: 'Tokens per block, a power of two from 8 to 256',
    aliases: {
      'kvcache-block-size': { schema: powerOfTwo(8, 256), value: 'N', help: 'Same as --block-size' },
    },
  },
  'kv-cache-bytes': {
    schema: whole(1, 2 ** 50).optional(),
    fallbackHelp:
      'a quarter of what weights and a step leave on the CPU, up to half for one whole context; half with CUDA',
    group: 'KV cache',
    value: 'BYTES',
    help: 'Size of the KV cache; never more than requests can use',
    aliases: {
      'kv-cache-size-mb': {
        schema: mebibytes(2 ** 30),
        value: 'MIB',
        help: 'Same as --kv-cache-bytes, in MiB; auto: the default',
      },
    },
  },
  'num-kvcache-blocks': {
    schema: wholeOr('-1', undefined, 1, RUNNER_LIMITS.blocks).optional(),
    group: 'KV cache',
    value: 'N',
    help: 'Size of the KV cache in blocks, in place of --kv-cache-bytes; -1: the default',
  },
  'memory-bytes': {
    schema: whole(1, 2 ** 50).optional(),
    group: 'KV cache',
    value: 'BYTES',
    help: 'Memory of the whole runner, in place of --kv-cache-bytes: the KV cache gets what is left; only on the CPU',
  },
  'gpu-memory-utilization': {
    schema: decimal(0.01, 1).optional(),
    group: 'KV cache',
    value: 'SHARE',
    help: "Share of the CUDA device's memory for everything on it, other programs included, in place of --kv-cache-bytes: the KV cache gets what is left",
  },
  'tensor-parallel-size': {
    schema: z.literal([1, '1'], 'must be 1, since one device computes a model').transform(Number).optional(),
    fallbackHelp: '1',
    group: 'Devices',
    value: 'N',
    help: 'Devices that compute one model; only 1 is supported',
  },
  'kv-cache-type': {
    schema: z.enum(KV_CACHE_TYPES, `must be one of ${KV_CACHE_TYPES.join(', ')}`).optional(),
    fallbackHelp: 'f16',
    group: 'KV cache',
    value: KV_CACHE_TYPES.join('|'),
    help: 'Type of the keys and values',
  },
  quantize: {
    schema: z.enum(QUANTIZE_TYPES, `must be one of ${QUANTIZE_TYPES.join(', ')}`).optional(),
    fallbackHelp: 'none, as in the file',
    group: 'Model',
    value: QUANTIZE_TYPES.join('|'),
    help: 'Quantise float matrices while they are loaded',
  },
  sandbox: {
    schema: z.enum(SANDBOX_MODES, `must be one of ${SANDBOX_MODES.join(', ')}`).optional(),
    fallbackHelp: 'auto',
    group: 'Security',
    value: SANDBOX_MODES.join('|'),
    help: 'Sandbox of the runner; strict: refuse to start without all parts of it; auto: use the parts that the system has',
  },
  record: {
    schema: text().optional(),
    group: 'Logging and debugging',
    value: 'FILE',
    help: "Record the runner's messages; they contain prompts, as ids",
  },
  'record-max-bytes': {
    schema: whole(RUNNER_LIMITS.minRecordBytes, 2 ** 50).optional(),
    fallbackHelp: '268435456',
    group: 'Logging and debugging',
    value: 'BYTES',
    help: 'Maximum size of a recording',
  },
} as const satisfies SettingTable;

/** The configuration of a runner, whatever its model. */
export type RunnerConfig = Omit<ConfigOf<typeof runnerSettings>, 'model'>;

/** The backend that is asked for. */
export function backendOf(config: Pick<RunnerConfig, 'backend' | 'gpu-device'>): (typeof BACKENDS)[number] {
  return config['gpu-device'] === -1 ? 'cpu' : (config.backend ?? 'auto');
}

type SourceOf<Name> = (name: Name) => string | undefined;

/** Sentences about settings of the runner that contradict each other. */
export function runnerFaults(config: RunnerConfig, sourceOf: SourceOf<keyof RunnerConfig>): string[] {
  const faults = backendFaults(config, sourceOf);
  for (const [one, other] of CACHE_SIZES) {
    const [first, second] = [sourceOf(one), sourceOf(other)];
    if (first !== undefined && second !== undefined)
      faults.push(`${first} and ${second} cannot be used together: leave one of them out.`);
  }
  const mixedRows = sourceOf('mixed-prefill-tokens');
  if (mixedRows !== undefined && config['mixed-batches'] === 'off')
    faults.push(
      `${mixedRows} has no effect when ${sourceOf('mixed-batches')} is off: leave one of them out.`,
    );
  const limit = sourceOf('record-max-bytes');
  if (limit !== undefined && config.record === undefined)
    faults.push(`${limit} has no effect without --record: leave it out, or add --record.`);
  const asked = backendOf(config);
  const activations = sourceOf('activations');
  if (activations !== undefined && config.activations === 'f32' && asked !== 'cpu')
    faults.push(`${activations} f32 works only on the CPU: add --backend cpu.`);
  const why =
    config['gpu-device'] === -1 ? `${sourceOf('gpu-device')} -1` : `${sourceOf('backend')} ${asked}`;
  for (const name of UNKNOWN_TO[asked]) {
    // Device -1 is the CPU, so it does not contradict the CPU backend.
    const source = name === 'gpu-device' && config[name] === -1 ? undefined : sourceOf(name);
    if (source === undefined) continue;
    faults.push(`${source} has no effect with ${why}: leave one of them out.`);
  }
  return faults;
}

/**
 * Pairs of settings that both say how large the KV cache is. With backend auto, --memory-bytes is for the CPU and
 * --gpu-memory-utilization for the device.
 */
const CACHE_SIZES = [
  ['memory-bytes', 'kv-cache-bytes'],
  ['memory-bytes', 'num-kvcache-blocks'],
  ['kv-cache-bytes', 'num-kvcache-blocks'],
  ['kv-cache-bytes', 'gpu-memory-utilization'],
  ['num-kvcache-blocks', 'gpu-memory-utilization'],
] as const satisfies readonly (readonly [keyof RunnerConfig, keyof RunnerConfig])[];

/** Sentences about settings that contradict each other in what computes. */
export function backendFaults(
  { backend, 'gpu-device': device }: Pick<RunnerConfig, 'backend' | 'gpu-device'>,
  sourceOf: SourceOf<'backend' | 'gpu-device'>,
): string[] {
  if (backend !== 'cuda' || device !== -1) return [];
  return [
    `${sourceOf('backend')} cuda and ${sourceOf('gpu-device')} -1, which is the CPU, cannot be used together: leave one of them out.`,
  ];
}

/**
 * Settings that mean nothing to any runner which a backend lets start. Paths of runner binaries are not among them, since they
 * only say where a file is.
 */
export const UNKNOWN_TO = {
  auto: [],
  cpu: ['gpu-device', 'enforce-eager', 'gpu-memory-utilization'],
  cuda: ['threads', 'isa', 'memory-bytes'],
} as const satisfies Record<(typeof BACKENDS)[number], readonly (keyof RunnerConfig)[]>;
