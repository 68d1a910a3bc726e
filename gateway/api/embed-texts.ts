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
import { ApiError, invalidField } from '../errors/api-error.ts';
import { embeddingRequest, ofLengthOne, poolingOf } from '../generation/embeddings.ts';
import { Readings } from '../generation/readings.ts';
import type { Model } from '../models/model.ts';
import type { RenderOptions } from '../prompt/chat-template.ts';
import { senderOf, sharerOf } from '../server/guard/caller.ts';
import type { RouteDeps } from '../server/route-group.ts';
import { inPieces, longAnswer, PIECE_CHARACTERS } from './long-answer.ts';

/** What the routes for embeddings have in common: they make vectors of texts or of token ids. */

/** The most texts of one request. */
export const MAX_TEXTS = 2048;

interface Wanted {
  /** The field with the texts. If there are several, errors name each text with its index after a dot. */
  readonly field: string;
  readonly texts: readonly (string | readonly number[])[];
  /** Values of each vector; undefined: all that the model gives. */
  readonly dimensions: number | undefined;
  readonly limit: ContextLimit;
  /** Whether a text that is too long loses its end; otherwise it is refused. */
  readonly isCut: boolean;
  /** As in a Call. */
  readonly priority?: number;
}

/** The JSON of an answer with vectors. */
interface Form {
  readonly before: string;
  readonly behind: string;
  /** The JSON before and after each vector; nothing by default. */
  readonly around?: (index: number) => readonly [string, string];
  /** Whether vectors are scaled to a length of 1, as by default. */
  readonly isScaled?: boolean;
  /** A list of numbers by default. */
  readonly vectorJson?: (vector: Float32Array) => Iterable<string>;
}

/** Digits after which a number in single precision can be read back exactly. */
const DIGITS = 9;

/**
 * Makes the vectors and answers with them. formOf: makes the form of the answer from the tokens of all texts. The vectors count
 * against the budget while they are made, because all of them are in memory before the first is sent, and until they are sent.
 * Throws a 400 for the first text that cannot have a vector and for vectors that could never fit, a 503 if they do not fit now,
 * and CANCELLED when the client has left.
 */
export async function embedTexts(
  c: Context,
  deps: Pick<RouteDeps, 'answerBudget' | 'jobs' | 'log' | 'pooling'>,
  { model, info, runner, api }: UsableModel,
  wanted: Wanted,
  formOf: (numTokens: number) => Form,
): Promise<Response> {
  const { answerBudget: budget, jobs } = deps;
  const { signal } = c.req.raw;
  const { embeddingSize: size, vocabSize, modelIdentity } = info;
  if (size === 0) {
    const message = 'This runner does not support embeddings.';
    throw new ApiError({ status: 501, code: 'not_supported', message });
  }
  requireDimensions(wanted.dimensions, size);
  const pooling = poolingOf(model, info, deps.pooling);
  const caller = sharerOf(c);
  const ids = await idsOf(wanted, model, vocabSize, { signal, caller });
  const sender = senderOf(c);
  const order = wanted.priority ? { priority: wanted.priority } : {};
  const requests = ids.map((promptIds) =>
    embeddingRequest({ promptIds, modelIdentity, ...sender, api, pooling, ...order }),
  );
  jobs.refuseQuarantined(requests);
  const numTokens = ids.reduce((sum, { length: count }) => sum + count, 0);
  const used = c.get('used');
  used.tokens_in = numTokens;
  c.get('span')?.setAttribute('gen_ai.operation.name', 'embeddings');
  const numBytes = requests.length * size * Float32Array.BYTES_PER_ELEMENT;
  const heldBytes = numBytes + PIECE_CHARACTERS;
  if (heldBytes > budget.limit) {
    const message = `${requests.length} vectors of ${size} values take ${heldBytes} bytes, and this server holds at most ${budget.limit} for answers; send fewer texts.`;
    throw new ApiError({ status: 400, code: 'invalid_request', message });
  }
  let vectors: readonly Float32Array[];
  budget.hold(caller, heldBytes);
  try {
    const embeddings = new Readings(runner, requests, ({ embedding }) => embedding);
    vectors = await whileWanted(signal, embeddings, embeddings);
    used.tokens_cached = embeddings.numCachedTokens;
  } finally {
    budget.release(caller, heldBytes);
  }
  // The answer holds them again in the same turn, so that no other request takes their room.
  return longAnswer(c, deps, numBytes, inPieces(parts(vectors, wanted.dimensions, formOf(numTokens))));
}

function requireDimensions(dimensions: number | undefined, embeddingSize: number): void {
  if (dimensions === undefined || dimensions <= embeddingSize) return;
  const message = `dimensions must be at most ${embeddingSize}, the values of this model's vectors (got ${dimensions})`;
  const constraint = `range(1..=${embeddingSize})`;
  throw invalidField({ field: 'dimensions', constraint, message, value: String(dimensions) });
}

async function idsOf(
  { field, texts, limit, isCut }: Wanted,
  model: Model,
  vocabSize: number,
  asker: Pick<RenderOptions, 'signal' | 'caller'>,
): Promise<(readonly number[])[]> {
  const unlimited = { maxModelLen: Number.POSITIVE_INFINITY };
  const encoded = await encodePrompts(texts, model, isCut ? unlimited : limit, asker);
  return texts.map((text, index) => {
    const name = texts.length === 1 ? field : `${field}.${index}`;
    if (typeof text !== 'string') requireKnownIds(text, vocabSize, (at) => `${name}.${at}`);
    const whole = requireIds(encoded[index], limit, name);
    const ids = isCut ? cut(whole, model, limit) : whole;
    requireInContext(ids, limit, name);
    return ids;
  });
}

/** A text of tokens that is too long loses its end. One is left whole if not even the control tokens around it fit. */
function cut(ids: readonly number[], { tokenizer }: Model, { maxModelLen }: ContextLimit): readonly number[] {
  if (ids.length <= maxModelLen) return ids;
  // A text that is cut keeps the control tokens that the tokenizer put around it. No other part of a text is a control token.
  const isText = (id: number): boolean => !tokenizer.isControl(id);
  const begin = ids.findIndex(isText);
  const end = ids.findLastIndex(isText) + 1;
  const numKept = maxModelLen - (ids.length - end);
  return numKept <= begin ? ids : [...ids.slice(0, numKept), ...ids.slice(end)];
}

/** A vector as a JSON list of numbers. */
function* floatsJson(vector: Float32Array): Generator<string> {
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

function* parts(
  vectors: readonly Float32Array[],
  dimensions: number | undefined,
  { before, behind, isScaled = true, vectorJson = floatsJson, around = () => ['', ''] }: Form,
): Generator<string> {
  yield before;
  for (const [index, vector] of vectors.entries()) {
    const [begin, end] = around(index);
    yield `${index === 0 ? '' : ','}${begin}`;
    yield* vectorJson(isScaled ? ofLengthOne(vector, dimensions) : vector.subarray(0, dimensions));
    yield end;
  }
  yield behind;
}
