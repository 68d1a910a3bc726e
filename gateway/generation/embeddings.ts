import type { Model, UnsupportedPooling } from '../models/model.ts';
import {
  type GenerateRequest,
  GenerationError,
  isEncoder,
  neutralSampling,
  type Pooling,
  poolings,
  type RequestPooling,
  type RunnerInfo,
} from '../runner/runner.ts';

/** Embeddings: a text becomes a request like any other, and its answer is a vector (docs/numerics.md). */

/**
 * How a model's vectors are made: as the server's settings say, else as the model's file or folder says, else the mean of an
 * encoder's tokens, which all see the whole text, or the last token of another model, which alone has seen it. Throws
 * INVALID_REQUEST if the file or folder names a pooling that is not supported, or none for a model that scores pairs of texts.
 */
export function poolingOf(
  { architecture, pooling }: Pick<Model, 'architecture' | 'pooling'>,
  { scoresPairs }: Pick<RunnerInfo, 'scoresPairs'>,
  asked?: Pooling,
): Pooling {
  const usual = isEncoder(architecture) ? 'mean' : 'last';
  const found = asked ?? pooling ?? (scoresPairs ? HEAD_ALONE : usual);
  if (typeof found === 'string') return found;
  const message = `The model's ${found.unsupported}, which is not supported; choose another with --pooling: ${poolings.join(', ')}.`;
  throw new GenerationError('INVALID_REQUEST', message, { retriable: false });
}

const HEAD_ALONE: UnsupportedPooling = { unsupported: 'file has a classification head and names no pooling' };

/** The request for the vector of one text, or for the score of a pair of texts. */
export function embeddingRequest(
  text: Pick<
    GenerateRequest,
    'promptIds' | 'modelIdentity' | 'cacheSalt' | 'api' | 'caller' | 'priority' | 'trace' | 'secondTypeFrom'
  > & {
    readonly pooling: RequestPooling;
  },
): GenerateRequest {
  const sampling = { ...neutralSampling, seed: 0n };
  return { ...text, maxTokens: 1, minTokens: 0, stopIds: [], sampling };
}

/** The first numValues values of a vector, scaled to a length of 1. A vector of zeros stays as it is. */
export function ofLengthOne(vector: Float32Array, numValues = vector.length): Float32Array {
  const values = vector.slice(0, numValues);
  const length = Math.sqrt(values.reduce((sum, value) => sum + value * value, 0));
  return length === 0 ? values : values.map((value) => value / length);
}
