import { fileURLToPath } from 'node:url';
import * as z from 'zod';
import {
  bytes,
  decimal,
  mebibytes,
  model,
  oneOf,
  onOff,
  powerOfTwo,
  text,
  whole,
  wholeOr,
  wordOrWhole,
} from './kinds.ts';
import { aliasOf, type ConfigOf, inGroup } from './setting.ts';

/**
 * The limits of the runner binaries, which check them again. `requests` and `promptTokens` limit what one runner holds at once.
 */
export const RUNNER_LIMITS = {
  threads: 256,
  madeUpNodes: 8,
  runners: 16,
  ranks: 16,
  maxModelLen: 2 ** 20,
  maxNumSeqs: 1024,
  maxNumBatchedTokens: 65_536,
  requests: 1024,
  promptTokens: 2 ** 22,
  gpuDevice: 255,
  blocks: 2 ** 32 - 1,
  minRecordBytes: 2 ** 16,
} as const;

const BACKENDS = ['auto', 'cpu', 'cuda'] as const;

export const MODEL_MISSING = 'is missing: name a model file, or a model that `runnel pull` has fetched';

function built(program: string): string {
  return fileURLToPath(new URL(`../../build/${program}`, import.meta.url));
}

const asBlockSize = powerOfTwo(8, 256);
const useCuda = z
  .union([z.boolean(), z.stringbool()], 'must be true or false')
  .transform((isUsed) => (isUsed ? 'auto' : undefined));

/** The settings of every command that starts a runner. */
export const runnerSettings = {
  ...inGroup('Model', {
    model: model(MODEL_MISSING).help('GGUF file, Hugging Face folder, or name of a pulled model'),
  }),
  ...inGroup('Devices', {
    backend: oneOf(BACKENDS)
      .optional('auto')
      .help(
        'Where the model is computed; auto: on a CUDA device if cuda-runner is built and a device answers, else on the CPU',
      )
      .with({ aliases: { 'use-cuda': { schema: useCuda, description: 'Same as --backend auto' } } }),
    'gpu-device': wholeOr('cpu', -1, -1, RUNNER_LIMITS.gpuDevice)
      .optional('0')
      .help('Number of the CUDA device; -1 or cpu: the CPU'),
    runner: text('FILE').or(built('cpu-runner'), 'build/cpu-runner').help('Runner program for the CPU'),
    'cuda-runner': text('FILE')
      .or(built('cuda-runner'), 'build/cuda-runner')
      .help('Runner program for CUDA devices'),
    'enforce-eager': onOff()
      .optional('off')
      .help('Launch each CUDA kernel by itself instead of in CUDA graphs'),
    threads: whole(1, RUNNER_LIMITS.threads)
      .optional('one for each usable core')
      .help('Threads of each CPU runner'),
    numa: wordOrWhole(['auto', 'off'], 1, RUNNER_LIMITS.madeUpNodes)
      .optional('auto')
      .help(
        'NUMA nodes of the CPU runner, each with a part of the weights and threads that are bound to it; auto: those of the machine; off: one; N: so many made up by dividing the threads, which are bound to nothing',
      ),
    isa: oneOf(['portable', 'avx2', 'avxvnni', 'avx512vnni', 'dotprod', 'i8mm'])
      .optional('the best that the processor has')
      .help('Instruction set of the CPU runner'),
    activations: oneOf(['i8', 'f32'])
      .optional('i8')
      .help(
        'Activations in matrix products; i8: 8 bits, with a scale for each 32 values; f32: not rounded, slower, only on the CPU',
      ),
    'tensor-parallel-size': whole(1, RUNNER_LIMITS.ranks)
      .optional('1')
      .help(
        'GPUs of each runner, or processes of a CPU runner, which compute the model together, each with a part of every matrix',
      ),
    'all-gather-backend': oneOf(['copies', 'nccl'])
      .optional('copies')
      .help(
        'How the GPUs of --tensor-parallel-size exchange results; copies: each copies those of the others; nccl: the all-gather of NCCL, whose library libnccl.so.2 must be installed',
      ),
  }),
  ...inGroup('Model', {
    'max-model-len': whole(2, RUNNER_LIMITS.maxModelLen)
      .optional("the model's context, or what the KV cache holds if that is less")
      .help('Maximum context: tokens of a prompt and its answer together'),
    quantize: oneOf(['q8_0', 'q4_0'])
      .optional('none, as in the file')
      .help('Quantise float matrices while they are loaded'),
  }),
  ...inGroup('Scheduling', {
    'max-num-seqs': whole(1, RUNNER_LIMITS.maxNumSeqs)
      .optional('64 on the CPU, 256 with CUDA')
      .help('Maximum sequences per step; each answer in progress is one'),
    'max-num-batched-tokens': whole(1, RUNNER_LIMITS.maxNumBatchedTokens)
      .optional('256 on the CPU, 2048 with CUDA')
      .help('Maximum tokens per step, prompt tokens included'),
    'mixed-batches': onOff()
      .optional('on')
      .help(
        'Compute next tokens and parts of prompts in one step; off: steps compute prompts alone, and first',
      ),
    'mixed-prefill-tokens': whole(1, RUNNER_LIMITS.maxNumBatchedTokens)
      .optional('24 on the CPU, 256 with CUDA')
      .help('Tokens of each waiting prompt in a step with 8 next tokens, and in proportion in other steps'),
    speculation: onOff()
      .optional('on with the CPU, off with CUDA')
      .help(
        'N-gram speculative decoding: several tokens per step where an answer repeats earlier text; the tokens stay the same',
      ),
  }),
  ...inGroup('KV cache', {
    'block-size': asBlockSize
      .optional('32 on the CPU, 64 with CUDA')
      .help('Tokens per block, a power of two from 8 to 256')
      .with({ aliases: { 'kvcache-block-size': aliasOf(asBlockSize, 'Same as --block-size') } }),
    'kv-cache-bytes': bytes(1, 2 ** 50)
      .optional(
        'a quarter of what weights and a step leave on the CPU, up to half for one whole context; with CUDA see --gpu-memory-utilization',
      )
      .help('Size of the KV cache; never more than requests can use')
      .with({
        aliases: {
          'kv-cache-size-mb': aliasOf(
            mebibytes(2 ** 30),
            'Same as --kv-cache-bytes, in MiB; auto: the default',
          ),
        },
      }),
    'num-kvcache-blocks': wholeOr('-1', undefined, 1, RUNNER_LIMITS.blocks)
      .optional()
      .help('Size of the KV cache in blocks, in place of --kv-cache-bytes; -1: the default'),
    'memory-bytes': bytes(1, 2 ** 50)
      .optional()
      .help(
        'Memory of the whole runner, in place of --kv-cache-bytes: the KV cache gets what is left; only on the CPU',
      ),
    'gpu-memory-utilization': decimal(0.01, 1, 'SHARE')
      .optional('0.9; with several models half of what each finds free')
      .help(
        "Share of the CUDA device's memory for everything on it, other programs included, in place of --kv-cache-bytes: the KV cache gets what is left after a first step",
      ),
    'kv-cache-type': oneOf(['f16', 'f32', 'q8_0']).optional('f16').help('Type of the keys and values'),
    'keep-kv': onOff()
      .optional('on')
      .help(
        'Keep the KV cache in memory that outlives the runner, so that after its death streams go on from what it has computed; only on the CPU, and not with --record',
      ),
  }),
  ...inGroup('Security', {
    sandbox: oneOf(['strict', 'auto', 'off'])
      .optional('auto')
      .help(
        'Sandbox of the runner; strict: refuse to start without all parts of it; auto: use the parts that the system has',
      ),
  }),
  ...inGroup('Logging and debugging', {
    record: text('FILE').optional().help("Record the runner's messages; they contain prompts, as ids"),
    'record-max-bytes': bytes(RUNNER_LIMITS.minRecordBytes, 2 ** 50)
      .optional('268435456')
      .help('Maximum size of a recording'),
  }),
};

/** The configuration of a runner, whatever its model. */
export type RunnerConfig = Omit<ConfigOf<typeof runnerSettings>, 'model'>;

/** The backend that is asked for. */
export function backendOf(config: Pick<RunnerConfig, 'backend' | 'gpu-device'>): (typeof BACKENDS)[number] {
  return config['gpu-device'] === -1 ? 'cpu' : (config.backend ?? 'auto');
}

type SourceOf<Name> = (name: Name) => string | undefined;

/** A sentence if both are given. */
export function clash(first: string | undefined, second: string | undefined): string[] {
  if (first === undefined || second === undefined) return [];
  return [`${first} and ${second} cannot be used together: leave one of them out.`];
}

/** Sentences about settings of the runner that contradict each other. */
export function runnerFaults(config: RunnerConfig, sourceOf: SourceOf<keyof RunnerConfig>): string[] {
  const faults = backendFaults(config, sourceOf);
  for (const [one, other] of CACHE_SIZES) faults.push(...clash(sourceOf(one), sourceOf(other)));
  const mixedRows = sourceOf('mixed-prefill-tokens');
  if (mixedRows !== undefined && config['mixed-batches'] === 'off')
    faults.push(
      `${mixedRows} has no effect when ${sourceOf('mixed-batches')} is off: leave one of them out.`,
    );
  const gathers = sourceOf('all-gather-backend');
  if (gathers !== undefined && (config['tensor-parallel-size'] ?? 1) === 1)
    faults.push(`${gathers} has no effect with one GPU: leave it out, or add --tensor-parallel-size.`);
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
    if (source !== undefined) faults.push(`${source} has no effect with ${why}: leave one of them out.`);
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
  return clash(`${sourceOf('backend')} cuda`, `${sourceOf('gpu-device')} -1, which is the CPU,`);
}

/**
 * Settings that mean nothing to any runner which a backend lets start. Paths of runner binaries are not among them, since they
 * only say where a file is.
 */
export const UNKNOWN_TO = {
  auto: [],
  cpu: ['gpu-device', 'enforce-eager', 'gpu-memory-utilization', 'all-gather-backend'],
  cuda: ['threads', 'numa', 'isa', 'memory-bytes', 'keep-kv'],
} as const satisfies Record<(typeof BACKENDS)[number], readonly (keyof RunnerConfig)[]>;
