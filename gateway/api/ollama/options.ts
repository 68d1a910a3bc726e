import * as z from 'zod';
import type { Call } from '../../calls/call.ts';
import type { ContextLimit } from '../../calls/prompt.ts';
import * as fields from '../fields.ts';
import { ANYTHING, type InertFields, inert, MAX_TOKENS, NO, ONE, ZERO } from '../fields.ts';
import { checkWindow, penaltyFields } from '../penalties.ts';
import { budget } from '../thinking-parts.ts';

/** The field `options` of a request. Defaults are Ollama's. */

/** Values of num_predict for "limited by the context alone". */
const UNLIMITED: readonly number[] = [-1, -2];
/** The value of seed for a random one. */
const ANY_SEED = -1;

export const optionsInert = {
  // Prompts are never cut, so there is nothing to keep.
  num_keep: ANYTHING,
  // Samplers that must be off, and the parameters that those samplers would have.
  mirostat: ZERO,
  mirostat_eta: ANYTHING,
  mirostat_tau: ANYTHING,
  tfs_z: ONE,
  typical_p: ONE,
  penalize_newline: [true],
  // How the model is run, which the operator decides.
  f16_kv: ANYTHING,
  low_vram: ANYTHING,
  main_gpu: ANYTHING,
  num_batch: ANYTHING,
  num_gpu: ANYTHING,
  num_thread: ANYTHING,
  numa: ANYTHING,
  use_mlock: ANYTHING,
  use_mmap: ANYTHING,
  vocab_only: NO,
} as const satisfies InertFields;

export const optionsFields = {
  temperature: fields.float('temperature', 0, 2).default(0.8),
  top_k: fields.integer('top_k', 0, 2 ** 32 - 1).default(40),
  top_p: fields.float('top_p', 0, 1).default(0.9),
  min_p: fields.float('min_p', 0, 1).default(0),
  ...penaltyFields,
  seed: z.preprocess((value) => (value === ANY_SEED ? undefined : value), fields.seed('seed').optional()),
  num_ctx: fields.integer('num_ctx', 1, MAX_TOKENS).optional(),
  num_predict: z
    .preprocess(
      (value) => (UNLIMITED.some((known) => known === value) ? undefined : value),
      fields.integer('num_predict', 1, MAX_TOKENS).optional(),
    )
    .meta({ minimum: Math.min(...UNLIMITED) }),
  /** Not Ollama's, which has none: vLLM's. */
  thinking_token_budget: budget('thinking_token_budget'),
  stop: z
    .preprocess((value) => (typeof value === 'string' ? [value] : value), fields.stopSequences('stop'))
    .meta({ type: ['string', 'array'] })
    .default([]),
  ...inert(optionsInert),
};

export const options = z
  .strictObject(optionsFields)
  .superRefine((request, ctx) => checkWindow(ctx, request))
  .prefault({});

export type Options = z.output<typeof options>;

export function samplingOf(request: Options): Call['sampling'] {
  return {
    temperature: request.temperature,
    topK: request.top_k,
    topP: request.top_p,
    minP: request.min_p,
    repetitionPenalty: request.repeat_penalty,
    presencePenalty: request.presence_penalty,
    frequencyPenalty: request.frequency_penalty,
  };
}

/** num_ctx bounds a prompt and its answer. It cannot make the context larger. */
export function contextOf({ num_ctx }: Options, limit: ContextLimit): ContextLimit {
  return { ...limit, maxModelLen: Math.min(limit.maxModelLen, num_ctx ?? limit.maxModelLen) };
}
