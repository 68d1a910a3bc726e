import * as z from 'zod';
import type { ApiError } from '../../errors/api-error.ts';
import { timingsSchema } from '../answer-fields.ts';

/** The answers of the native routes: the types that the encoders use, and the schemas in /openapi.json. */

/** A 64-bit integer. The JSON has all of its digits. */
const seed = z.bigint().meta({ type: 'integer' });

const started = z.object({
  job_id: z.string(),
  model: z.string(),
  started_at: z.string().meta({ description: 'ISO 8601, UTC.' }),
  seed: seed.meta({
    type: 'integer',
    description: 'The seed used: the request’s own, or the random one drawn for it.',
  }),
});
export type StartedData = Readonly<z.infer<typeof started>>;

const ids = z.array(z.int()).readonly().optional();

const token = z.object({
  t: z.string(),
  i: z.int().meta({ description: 'Index in the answer of the token that completed the text.' }),
  ids: ids.meta({ description: 'The tokens since the previous event; the last one is token i.' }),
});
export type TokenData = Readonly<z.infer<typeof token>>;

const metrics = z.object({
  tokens_per_sec: z.number().meta({ description: 'Since the previous event of this kind.' }),
  vram_bytes: z.int(),
});
export type MetricsData = Readonly<z.infer<typeof metrics>>;

const end = z.object({
  tokens_out: z.int(),
  decode_time_ms: z.int(),
  stop_reason: z.enum(['eos', 'stop_sequence', 'max_tokens', 'time_limit']),
  stop_sequence_matched: z.string().nullable(),
  seed,
  cached_tokens: z.int().meta({ description: 'Tokens of the prompt that were found in the KV cache.' }),
  continued_by: z.string().optional().meta({
    description: 'The numerics id of the runner that ended the answer, if one with another began it.',
  }),
  timings: timingsSchema.optional(),
  ids: ids.meta({
    description: 'Tokens that no token event had, because they add no text, such as the end of the answer.',
  }),
});
export type EndData = Readonly<z.infer<typeof end>>;

const error = z.object({
  code: z.enum(['VRAM_OOM', 'CANCELLED', 'TIMEOUT', 'INVALID_REQUEST', 'INFERENCE_FAILED']),
  message: z.string(),
  retriable: z.boolean(),
});
export type ErrorData = Readonly<z.infer<typeof error>>;

/** The data of each event, by the event's name. */
export const executeEventSchemas = { started, token, metrics, end, error };

export const cancelledSchema = z.object({ job_id: z.string() }).meta({ title: 'Cancelled' });

const piece = z.union([z.string(), z.array(z.int())]);
export const tokenizedSchema = z
  .object({ tokens: z.union([z.array(z.int()), z.array(z.object({ id: z.int(), piece }))]) })
  .meta({ title: 'Tokens' });
export const detokenizedSchema = z.object({ content: z.string() }).meta({ title: 'Detokenized' });
export const promptSchema = z.object({ prompt: z.string() }).meta({ title: 'Prompt' });

/** The body of a native error: all fields at fault, or a code and whether a retry can help. */
export function nativeErrorBody(error: ApiError): object {
  if (error.fieldErrors.length > 0) return { errors: error.fieldErrors };
  return { code: error.code.toUpperCase(), message: error.message, retriable: error.retriable };
}

const fieldError = z.object({
  field: z.string(),
  constraint: z.string(),
  message: z.string(),
  value: z.string().optional(),
});

/** The forms of the body. */
export const nativeErrorSchema = z
  .union([
    z.object({ errors: z.array(fieldError) }),
    z.object({ code: z.string(), message: z.string(), retriable: z.boolean() }),
  ])
  .meta({ title: 'NativeError' });
