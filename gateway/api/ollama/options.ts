import * as z from 'zod';
import type { ContextLimit } from '../../calls/prompt.ts';
import * as fields from '../fields.ts';
import { ANYTHING, inert, MAX_TOKENS, NO, ONE, ZERO } from '../fields.ts';
import { checkWindow, penaltyFields, samplingFields } from '../sampling-fields.ts';
import { budget } from '../thinking-parts.ts';

/** The field `options` of a request. Defaults are Ollama's. */

/** Values of num_predict for "limited by the context alone". */
const UNLIMITED: readonly number[] = [-1, -2];
/** The value of seed for a random one. */
const ANY_SEED = -1;

const optionsFields = {
  ...samplingFields({ temperature: 0.8, top_k: 40, top_p: 0.9 }),
  min_p: fields.float('min_p', 0, 1).default(0),
  ...penaltyFields,
  seed: z.preprocess((value) => (value === ANY_SEED ? undefined : value), fields.seed('seed').optional()),
  num_ctx: fields.integer('num_ctx', 1, MAX_TOKENS).optional(),
  num_predict: fields.maxTokens('num_predict', 1, UNLIMITED),
  /** Not Ollama's, which has none: vLLM's. */
  thinking_token_budget: budget('thinking_token_budget'),
  stop: fields.oneOrMany(fields.stopSequences('stop')).default([]),
  ...inert({
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
  }),
};

export const options = z
  .strictObject(optionsFields)
  .superRefine((request, ctx) => checkWindow(ctx, request))
  .prefault({});

export type Options = z.output<typeof options>;

/** num_ctx bounds a prompt and its answer. It cannot make the context larger. */
export function contextOf({ num_ctx }: Options, limit: ContextLimit): ContextLimit {
  return { ...limit, maxModelLen: Math.min(limit.maxModelLen, num_ctx ?? limit.maxModelLen) };
}
