import { ApiError } from '../errors/api-error.ts';
import type { Model } from '../models/model.ts';
import type { TokenConstraints } from './call.ts';

/** Throws a 400 unless all ids are in the vocabulary. fieldOf: names the field of an id by its index. */
export function requireKnownIds(
  ids: readonly number[],
  vocabSize: number,
  fieldOf: (index: number) => string,
): void {
  const index = ids.findIndex((id) => id >= vocabSize);
  if (index < 0) return;
  const field = fieldOf(index);
  const message = `${field} is token ${ids[index]}, but the vocabulary ends at ${vocabSize - 1}`;
  const fieldErrors = [{ field, constraint: `range(0..${vocabSize})`, message, value: String(ids[index]) }];
  throw new ApiError({ status: 400, code: 'invalid_request', message, fieldErrors });
}

export function requireKnownBiases(biases: ReadonlyMap<number, number>, vocabSize: number): void {
  const ids = [...biases.keys()];
  requireKnownIds(ids, vocabSize, (index) => `logit_bias.${ids[index]}`);
}

/**
 * The ids that end an answer. Throws a 400 unless the model has each token that the request names, and at least one token
 * can be drawn.
 */
export function stopIdsOf(request: TokenConstraints, model: Model, vocabSize: number): number[] {
  for (const field of ['stop_token_ids', 'allowed_token_ids', 'banned_token_ids'] as const)
    requireKnownIds(request[field], vocabSize, (index) => `${field}.${index}`);
  const stopIds = [...new Set([...model.stopIds, ...request.stop_token_ids])];
  requireDrawable(request, stopIds, vocabSize);
  return stopIds;
}

function requireDrawable(request: TokenConstraints, stopIds: readonly number[], vocabSize: number): void {
  const { min_tokens, allowed_token_ids, banned_token_ids } = request;
  const masked = new Set([...banned_token_ids, ...(min_tokens > 0 ? stopIds : [])]);
  const isLimited = allowed_token_ids.length > 0;
  const isDrawable = isLimited ? !allowed_token_ids.every((id) => masked.has(id)) : masked.size < vocabSize;
  if (isDrawable) return;
  const field = isLimited ? 'allowed_token_ids' : 'banned_token_ids';
  const message = `${field} leaves no token that can be generated: each one is banned, or is a stop token and min_tokens is above 0`;
  const fieldErrors = [{ field, constraint: 'drawable', message }];
  throw new ApiError({ status: 400, code: 'invalid_request', message, fieldErrors });
}
