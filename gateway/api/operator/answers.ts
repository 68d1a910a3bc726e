import * as z from 'zod';
import type { CrashReport } from '../../telemetry/crash-reports.ts';

/** The answers of the operators' routes: the types that the routes use, and the schemas in /openapi.json. */

const runnerState = z.enum(['starting', 'ready', 'recovering', 'failed', 'stopping']);
const count = z.int().nullable();
const text = z.string().nullable();
const fraction = z.number().nullable();

const modelState = z.object({
  name: text,
  state: z.enum(['loaded', 'loading', 'unloaded', 'failed']),
  load_progress: fraction,
  reason: text,
  pid: count,
  restarts: z.int(),
  open_requests: z.int(),
  memory_bytes: z.int(),
});
export type ModelState = z.infer<typeof modelState>;

const processFields = {
  state: runnerState,
  reason: text,
  pid: count,
  restarts: z.int(),
  open_requests: z.int(),
  load_progress: fraction,
};
export type ProcessState = z.infer<z.ZodObject<typeof processFields>>;

const blocks = { kv_blocks: count, kv_blocks_free: count };
const memory = { weights_bytes: count, kv_cache_bytes: count };

const singleRunner = z.object({ runner: z.int(), ...processFields, ...blocks, ...memory });
export type SingleRunner = z.infer<typeof singleRunner>;

const scheduler = z.object({
  total: z.int(),
  waiting: z.int(),
  running: z.int(),
  paused: z.int(),
  finished: z.int(),
  failed: z.int(),
  preemptions: z.int(),
  prefill_batches: z.int(),
  decode_batches: z.int(),
  mixed_batches: z.int(),
  mean_prefill_batch_size: z.number(),
  mean_decode_batch_size: z.number(),
  prefill_tokens: z.int(),
  cached_tokens: z.int(),
  generated_tokens: z.int(),
  draft_tokens: z.int(),
  accepted_draft_tokens: z.int(),
  blocks_total: count,
  blocks_free: z.int(),
  blocks_reusable: z.int(),
  busy_seconds: z.number(),
  memory_bytes: count,
});
export type SchedulerState = z.infer<typeof scheduler>;

const backend = z.object({
  requested: z.enum(['auto', 'cpu', 'cuda']),
  serving: z.string().nullable(),
  is_fallback: z.boolean(),
  reason: text,
  looks_again_in_seconds: count,
});
export type Backend = z.infer<typeof backend>;

const memoryType = z.enum(['cpu', 'vram-only']);

export const healthSchema = z
  .object({
    status: z.enum(['healthy', 'starting', 'recovering', 'degraded', 'unhealthy']),
    model_loaded: z.boolean(),
    vram_bytes: z.int(),
    memory_type: memoryType,
    memory_bytes: z.int(),
    memory_architecture: memoryType,
    resident: z.boolean(),
    vram_bytes_used: z.number(),
    memory_bytes_used: z.number(),
    state: z.enum(['starting', 'ready', 'busy', 'recovering', 'draining', 'failed']),
    model: text,
    quant_kind: text,
    tokenizer_kind: text,
    vocab_size: count,
    context_length: count,
    capabilities: z.array(z.string()),
    protocol: z.literal('sse'),
    uptime_seconds: z.int(),
    runner: z.object({
      ...processFields,
      kind: text,
      build: text,
      device: text,
      numerics_id: text,
      sandbox: text,
      ...blocks,
      kv_cache_type: text,
      ...memory,
      kv_cache_bytes_used: z.number(),
      kv_cache_bytes_reusable: z.number(),
    }),
    runners: z.array(singleRunner).optional(),
    backend: backend.nullable(),
    model_change: z
      .object({ phase: z.enum(['draining', 'loading']), from: z.string(), to: z.string() })
      .readonly()
      .nullable(),
    models: z.array(modelState),
    scheduler: scheduler.nullable(),
  })
  .meta({ title: 'Health' });
export type Health = z.infer<typeof healthSchema>;

export const readySchema = z
  .object({
    status: z.literal('ready'),
    fallback: z.string().optional(),
    models: z.array(modelState).optional(),
  })
  .meta({ title: 'Ready' });
export type Ready = z.infer<typeof readySchema>;

const strings = z.array(z.string()).readonly();

const crashedRequest = z.object({
  request_id: z.int(),
  prompt_tokens: z.int(),
  emitted_tokens: z.int(),
  strikes: z.int(),
  max_tokens: z.int(),
  temperature: z.number(),
  top_k: z.int(),
  top_p: z.number(),
  min_p: z.number(),
  repetition_penalty: z.number(),
  presence_penalty: z.number(),
  frequency_penalty: z.number(),
  logit_biases: z.int(),
  allowed_tokens: z.int(),
  banned_tokens: z.int(),
  /** A 64-bit integer. The JSON has all of its digits. */
  seed: z.custom<object>().meta({ type: 'integer' }),
});

const crash = z.object({
  model: z.string().optional(),
  time: z.string(),
  reason: z.string(),
  message: z.string(),
  pid: count,
  runner: count,
  start: z.int(),
  exit_code: count,
  signal: text,
  phase: text,
  step: z.int(),
  ready_for_ms: count,
  build: text,
  numerics_id: text,
  model_identity: text,
  command: strings,
  stderr_tail: strings,
  num_requests: z.int(),
  requests: z.array(crashedRequest).readonly(),
  recording: text,
}) satisfies z.ZodType<Omit<CrashReport, 'model'>>;

export const crashesSchema = z.object({ crashes: z.array(crash) }).meta({ title: 'Crashes' });

export const restartedSchema = z.object({ status: z.literal('restarted') }).meta({ title: 'Restarted' });
export const restartingSchema = z.object({ status: z.literal('restarting') }).meta({ title: 'Restarting' });
export const killedSchema = z.object({ status: z.literal('killed') }).meta({ title: 'Killed' });

/** The kinds of work that a pool manager may send here. */
export const CAPABILITIES = ['text-gen'];
