import { ApiError } from '../api/error.ts';

/** 400 unless the model has every one of these ids; says which field, by its place, holds the first it has not. */
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
