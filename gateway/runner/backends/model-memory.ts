/**
 * What a runner reports about a model without loading it: what the file holds, how much memory serving takes, and why it
 * cannot be served.
 */
import * as z from 'zod';
import { escapeControls, lastLineOf } from '../../system/printable.ts';
import { programOutput } from '../../system/program-output.ts';

const ANSWER_LIMITS = { timeoutMs: 60_000, maxBytes: 1024 * 1024 };
/** More than any KV cache, so that only what the sequences can use bounds its size. */
const UNBOUNDED_BYTES = String(2n ** 62n);

const bytes = z.number().min(0);
const count = z.int().min(1);
/** The properties that distinguish the layers of one model from those of another. */
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
      z.object({
        type: z.literal('yarn'),
        factor: z.number(),
        original_context_length: count,
        magnitude: z.number(),
      }),
    ])
    .nullable(),
  /** The window of all layers, or of all but every global_every-th. rope_theta is then that of the layers with a window. */
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
  num_kvcache_blocks: z.int().min(1).optional(),
  process_bytes: bytes.optional(),
  weights_bytes: bytes.optional(),
  kv_cache_bytes: bytes.optional(),
  rows_bytes: bytes.optional(),
  attention_bytes: bytes.optional(),
  logits_bytes: bytes.optional(),
  requests_bytes: bytes.optional(),
  memory_bytes: bytes.optional(),
  available_bytes: bytes.optional(),
});

export type RunnerInspection = z.output<typeof schema>;

export interface InspectionParams {
  readonly model: string;
  /** Tokens of prompt and answer together; undefined: the model's context length. */
  readonly context: number | undefined;
  /** Sequences at once, each of that many tokens. */
  readonly batch: number;
  /** The device, and what the memory depends on. */
  readonly flags: readonly string[];
}

/** runner: path of the binary. Returns a sentence if the runner gives no answer. */
export async function inspectBy(
  runner: string,
  { model, context, batch, flags }: InspectionParams,
): Promise<RunnerInspection | string> {
  const args = ['inspect', '--json', '--model', model, '--max-num-seqs', String(batch)];
  args.push('--kv-cache-bytes', UNBOUNDED_BYTES, ...flags);
  if (context !== undefined) args.push('--max-model-len', String(context));
  return inspection(runner, args);
}

/** Runs the runner with these arguments and reads its answer. Returns a sentence if it gives none. */
export async function inspection(
  runner: string,
  args: readonly string[],
): Promise<RunnerInspection | string> {
  const { stdout, stderr, fault } = await programOutput(runner, args, ANSWER_LIMITS);
  if (fault !== undefined) return escapeControls(lastLineOf(stderr) || `${runner}: ${fault}.`);
  try {
    return schema.parse(JSON.parse(stdout));
  } catch {
    return `${runner} inspect gave no valid answer; the runner may be of another version.`;
  }
}
