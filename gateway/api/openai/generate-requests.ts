import type { GenerateRequest } from '../../runner/runner.ts';
import { repetitionPenalty, type SharedFields } from './shared-fields.ts';

const NUM_SEEDS = 2n ** 64n;

/**
 * Makes the requests of one prompt's choices: n requests that differ in their seed alone. Choice i has the seed plus i
 * (modulo 2^64). So each choice can be made again by itself, and it does not depend on the other prompts.
 */
export function generateRequests(
  fields: Omit<SharedFields, 'seed'>,
  seed: bigint,
  prompt: Omit<GenerateRequest, 'sampling'>,
): GenerateRequest[] {
  const sampling = {
    temperature: fields.temperature,
    topK: fields.top_k,
    topP: fields.top_p,
    minP: fields.min_p,
    repetitionPenalty: repetitionPenalty(fields),
    presencePenalty: fields.presence_penalty,
    frequencyPenalty: fields.frequency_penalty,
    logitBias: fields.logit_bias,
    allowedTokenIds: fields.allowed_token_ids,
    bannedTokenIds: fields.banned_token_ids,
  };
  return Array.from({ length: fields.n }, (_, choice) => {
    return { ...prompt, sampling: { ...sampling, seed: (seed + BigInt(choice)) % NUM_SEEDS } };
  });
}
