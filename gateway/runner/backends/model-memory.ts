/** What a runner says of a model that it does not load: what the file holds, what serving it would take, and why it cannot. */
import * as z from 'zod';
import { escapeControls } from '../../system/printable.ts';
import { programOutput } from '../../system/program-output.ts';

const ANSWER_LIMITS = { timeoutMs: 60_000, maxBytes: 1024 * 1024 };
/** More than any cache: what sequences can use bounds it. */
const UNBOUNDED_BYTES = String(2n ** 62n);

const bytes = z.number().min(0);
const count = z.int().min(1);
/** What tells the layers of one model from those of others. */
const layers = z.object({
  norm: z.enum(['rms', 'layer']),
  has_head_norms: z.boolean(),
  has_output_norms: z.boolean(),
  positions: z.enum(['rotary', 'learned']),
  rope_scaling: z
    .discriminatedUnion('type', [
      z.object({ type: z.literal('linear'), factor: z.number() }),
      z.object({ type: z.literal('llama3') }),
      z.object({ type: z.literal('longrope'), original_context_length: count, magnitude: z.number() }),
    ])
    .nullable(),
  /** Of all layers, or of all but each global_every-th, which then have another rope_theta. */
  sliding_window: z
    .object({ positions: count, global_every: count.optional(), rope_theta: z.number().optional() })
    .nullable(),
  experts: z.object({ count, used: count, ffn_size: count }).nullable(),
});
const schema = z.object({
  num_parameters: bytes,
  rope_theta: z.number(),
  layers,
  file_bytes: bytes,
  tensors: z.record(z.string().max(64).transform(escapeControls), z.object({ tensors: bytes, bytes })),
  obstacle: z.string().max(4096).transform(escapeControls).nullable(),
  device: z.string().max(256).transform(escapeControls).optional(),
  max_model_len: z.int().min(1).optional(),
  weights_bytes: bytes.optional(),
  kv_cache_bytes: bytes.optional(),
  step_bytes: bytes.optional(),
  memory_bytes: bytes.optional(),
  available_bytes: bytes.optional(),
});

export type RunnerInspection = z.output<typeof schema>;

export interface InspectionWish {
  readonly model: string;
  /** Tokens of prompt and answer together; undefined: all that the model has. */
  readonly context: number | undefined;
  /** Sequences at once, each of so many tokens. */
  readonly batch: number;
  /** Of the CUDA device; undefined: the runner's own. */
  readonly gpuDevice: number | undefined;
}

/** runner: the binary. A sentence when it does not say. */
export async function inspectBy(
  runner: string,
  { model, context, batch, gpuDevice }: InspectionWish,
): Promise<RunnerInspection | string> {
  const args = ['inspect', '--json', '--model', model, '--max-num-seqs', String(batch)];
  args.push('--kv-cache-bytes', UNBOUNDED_BYTES);
  if (context !== undefined) args.push('--max-model-len', String(context));
  if (gpuDevice !== undefined) args.push('--gpu-device', String(gpuDevice));
  return inspection(runner, args);
}

/** What a runner says that is started with these arguments. A sentence when it does not say. */
export async function inspection(
  runner: string,
  args: readonly string[],
): Promise<RunnerInspection | string> {
  const { stdout, stderr, fault } = await programOutput(runner, args, ANSWER_LIMITS);
  if (fault !== undefined)
    return escapeControls(stderr.trimEnd().split('\n').at(-1) || `${runner}: ${fault}.`);
  try {
    return schema.parse(JSON.parse(stdout));
  } catch {
    return `${runner} inspect gives an answer that is none; it is of another version perhaps.`;
  }
}
