import type { Context } from 'hono';
import {
  type ContextLimit,
  encodePrompts,
  requireIds,
  requireInContext,
  requireKnownIds,
} from '../calls/prompt.ts';
import type { UsableModel } from '../calls/use-model.ts';
import { whileWanted } from '../calls/whole-answer.ts';
import { ApiError } from '../errors/api-error.ts';
import { Embeddings, embeddingRequest, ofLengthOne, poolingOf } from '../generation/embeddings.ts';
import type { Model } from '../models/model.ts';
import type { ByteBudget } from '../server/guard/bodies.ts';
import { senderOf, sharerOf } from '../server/guard/caller.ts';
import type { RouteDeps } from '../server/route-group.ts';
import type { Caller } from '../system/caller.ts';
import { longAnswer, PIECE_CHARACTERS } from './long-answer.ts';

/** What the routes for embeddings have in common: they make vectors of texts or of token ids. */

/** The most texts of one request. */
export const MAX_TEXTS = 2048;

interface Wish {
  /** The field with the texts. If there are several, errors name each text with its index after a dot. */
  readonly field: string;
  readonly texts: readonly (string | readonly number[])[];
  /** Values of each vector; undefined: all that the model gives. */
  readonly dimensions: number | undefined;
  readonly limit: ContextLimit;
  /** Whether a text that is too long loses its end; otherwise it is refused. */
  readonly isCut: boolean;
}

export interface EmbeddedTexts {
  /** The vector of each text, not scaled, with all its values. */
  readonly vectors: readonly Float32Array[];
  /** Tokens of all texts together. */
  readonly numTokens: number;
}

/**
 * Makes the vectors and answers with them. answer: makes the response, by vectorsAnswer. Throws a 400 for the first text
 * that cannot have a vector, a 503 if there is no room for the vectors, and CANCELLED when the client has left.
 */
export async function embedTexts(
  c: Context,
  deps: RouteDeps,
  { model, info, runner, api }: UsableModel,
  wish: Wish,
  answer: (embedded: EmbeddedTexts) => Response,
): Promise<Response> {
  const { signal } = c.req.raw;
  const { dimensions } = wish;
  if (info.embeddingSize === 0)
    throw new ApiError({
      status: 501,
      code: 'not_supported',
      message: 'This runner does not support embeddings.',
    });
  requireDimensions(dimensions, info.embeddingSize);
  const pooling = poolingOf(model, deps.pooling);
  const ids = await idsOf(wish, model, info.vocabSize, signal);
  const { modelIdentity } = info;
  const sender = senderOf(c);
  const requests = ids.map((promptIds) =>
    embeddingRequest({ promptIds, modelIdentity, ...sender, api, pooling }),
  );
  const numTokens = ids.reduce((sum, { length: count }) => sum + count, 0);
  const make = () => {
    const embeddings = new Embeddings(runner, requests);
    return whileWanted(signal, embeddings, embeddings);
  };
  return whileHeld(deps.answerBudget, sharerOf(c), requests.length, info.embeddingSize, make, (vectors) =>
    answer({ vectors, numTokens }),
  );
}

/**
 * Counts the vectors against the budget while they are made, because all of them are in memory before the first is sent.
 * answer() counts them until they are sent: it is called in the same turn, so that no other request takes their room.
 * Throws a 400 if they could never fit, and a 503 if they do not fit now.
 */
async function whileHeld<Made>(
  budget: ByteBudget,
  caller: Caller,
  numVectors: number,
  size: number,
  make: () => Promise<Made>,
  answer: (made: Made) => Response,
): Promise<Response> {
  const numBytes = bytesOf(numVectors, size) + PIECE_CHARACTERS;
  if (numBytes > budget.limit) {
    const message = `${numVectors} vectors of ${size} values take ${numBytes} bytes, and this server holds at most ${budget.limit} for answers; send fewer texts.`;
    throw new ApiError({ status: 400, code: 'invalid_request', message });
  }
  budget.hold(caller, numBytes);
  let made: Made;
  try {
    made = await make();
  } finally {
    budget.release(caller, numBytes);
  }
  return answer(made);
}

function requireDimensions(dimensions: number | undefined, embeddingSize: number): void {
  if (dimensions === undefined || dimensions <= embeddingSize) return;
  const message = `dimensions must be at most ${embeddingSize}, the values of this model's vectors (got ${dimensions})`;
  const fieldErrors = [
    { field: 'dimensions', constraint: `range(1..=${embeddingSize})`, message, value: String(dimensions) },
  ];
  throw new ApiError({ status: 400, code: 'invalid_request', message, fieldErrors });
}

async function idsOf(
  { field, texts, limit, isCut }: Wish,
  model: Model,
  vocabSize: number,
  signal: AbortSignal,
): Promise<(readonly number[])[]> {
  const unlimited = { maxModelLen: Number.POSITIVE_INFINITY };
  const encoded = await encodePrompts(texts, model, isCut ? unlimited : limit, signal);
  return texts.map((text, index) => {
    const name = texts.length === 1 ? field : `${field}.${index}`;
    if (typeof text !== 'string') requireKnownIds(text, vocabSize, (at) => `${name}.${at}`);
    const whole = requireIds(encoded[index], limit, name);
    const ids = isCut && typeof text === 'string' ? cut(whole, model, limit) : whole;
    requireInContext(ids, limit, name);
    return ids;
  });
}

function cut(ids: readonly number[], { tokenizer }: Model, { maxModelLen }: ContextLimit): readonly number[] {
  if (ids.length <= maxModelLen) return ids;
  // A text that is cut keeps the control tokens that the tokenizer put after it. No other part of a text is a control
  // token.
  let numBehind = 0;
  while (tokenizer.isControl(ids[ids.length - 1 - numBehind] as number)) numBehind++;
  const behind = numBehind === 0 ? [] : ids.slice(-numBehind);
  return [...ids.slice(0, Math.max(0, maxModelLen - numBehind)), ...behind];
}

/** Digits after which a number in single precision can be read back exactly. */
const DIGITS = 9;

interface Form {
  /** How many of each vector's first values are sent; undefined: all. */
  readonly dimensions: number | undefined;
  /** Whether vectors are scaled to a length of 1. */
  readonly isScaled: boolean;
  readonly vectorJson: (vector: Float32Array) => Iterable<string>;
  /** The JSON before and after each vector. */
  readonly around: (index: number) => readonly [string, string];
  readonly before: string;
  readonly behind: string;
}

/** Bytes that the vectors take in memory. */
export function bytesOf(numVectors: number, size: number): number {
  return numVectors * size * Float32Array.BYTES_PER_ELEMENT;
}

/** Answers with the vectors. Their bytes count against the budget until the client has taken them. */
export function vectorsAnswer(
  c: Context,
  { answerBudget }: Pick<RouteDeps, 'answerBudget'>,
  vectors: readonly Float32Array[],
  form: Form,
): Response {
  const numBytes = bytesOf(vectors.length, vectors[0]?.length ?? 0);
  return longAnswer(c, answerBudget, numBytes, inPieces(parts(vectors, form)));
}

/** A vector as a JSON list of numbers. */
export function* floatsJson(vector: Float32Array): Generator<string> {
  yield '[';
  for (const [at, value] of vector.entries())
    yield `${at === 0 ? '' : ','}${Number(value.toPrecision(DIGITS))}`;
  yield ']';
}

/** A vector as base64 of its values in single precision, little-endian. */
export function* base64Json(vector: Float32Array): Generator<string> {
  const bytes = Buffer.alloc(vector.byteLength);
  for (const [at, value] of vector.entries()) bytes.writeFloatLE(value, at * Float32Array.BYTES_PER_ELEMENT);
  yield `"${bytes.toString('base64')}"`;
}

function* parts(vectors: readonly Float32Array[], form: Form): Generator<string> {
  yield form.before;
  for (const [index, vector] of vectors.entries()) {
    const [before, behind] = form.around(index);
    yield `${index === 0 ? '' : ','}${before}`;
    const told = form.isScaled ? ofLengthOne(vector, form.dimensions) : vector.subarray(0, form.dimensions);
    yield* form.vectorJson(told);
    yield behind;
  }
  yield form.behind;
}

function* inPieces(texts: Iterable<string>): Generator<string> {
  let piece = '';
  for (const text of texts) {
    piece += text;
    if (piece.length < PIECE_CHARACTERS) continue;
    yield piece;
    piece = '';
  }
  if (piece !== '') yield piece;
}
