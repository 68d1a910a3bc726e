import { z } from 'zod';
import * as fields from '../fields.ts';
import { checkMinTokens, tokenConstraints } from '../token-constraints.ts';

export const MAX_PROMPT_CHARACTERS = 32_768;
export const MAX_EXECUTE_TOKENS = 2048;

const prompt = fields.text('prompt', MAX_PROMPT_CHARACTERS);
const promptIds = fields.tokenIds('prompt_ids', 1, Number.POSITIVE_INFINITY);

// In the order in which faults are reported.
const schema = z.strictObject({
  job_id: fields.nonEmpty('job_id'),
  prompt: prompt.optional(),
  prompt_ids: promptIds.optional(),
  max_tokens: fields.integer('max_tokens', 1, MAX_EXECUTE_TOKENS).default(MAX_EXECUTE_TOKENS),
  temperature: fields.float('temperature', 0, 2).default(1),
  top_p: fields.float('top_p', 0, 1).default(1),
  top_k: fields.integer('top_k', 0, 2 ** 32 - 1).default(0),
  repetition_penalty: fields.floatAbove('repetition_penalty', 0, 2).default(1),
  stop: fields.stopSequences('stop').default([]),
  min_p: fields.float('min_p', 0, 1).default(0),
  seed: fields.seed('seed').optional(),
  ...tokenConstraints,
  /** Adds `metrics` events to the stream. */
  metrics: z.boolean().default(false),
  /** Adds the ids of the tokens to `token` and `end` events. */
  token_ids: z.boolean().default(false),
});

/** The fields of POST /execute. */
export const executeFields = schema.shape;

/** The body of POST /execute, checked and with its defaults. It has exactly one of `prompt` and `prompt_ids`. */
export type ExecuteRequest = z.output<typeof schema>;

// Two schemas, because a rule across fields is only looked at when each field is good, and all faults come at once.
const withText = schema.extend({ prompt }).superRefine(checkRequest);
const withIds = schema
  .extend({ prompt: fields.excludedBy('prompt', 'prompt_ids'), prompt_ids: promptIds })
  .superRefine(checkRequest);

function checkRequest(
  request: Pick<ExecuteRequest, 'min_tokens' | 'max_tokens'>,
  ctx: z.RefinementCtx,
): void {
  const maxTokens = { name: 'max_tokens', value: request.max_tokens, fallback: MAX_EXECUTE_TOKENS };
  checkMinTokens(ctx, request.min_tokens, maxTokens);
}

/** Throws a 400 that lists every field at fault. */
export function parseExecuteRequest(body: unknown): ExecuteRequest {
  return hasPromptIds(body)
    ? { ...fields.parseBody(withIds, body), prompt: undefined }
    : fields.parseBody(withText, body);
}

function hasPromptIds(body: unknown): boolean {
  return typeof body === 'object' && body !== null && 'prompt_ids' in body && body.prompt_ids !== null;
}
