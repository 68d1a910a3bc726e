import { ApiError } from '../errors/api-error.ts';
import type { Model } from '../models/model.ts';
import type { ServedModel } from '../models/model-registry.ts';
import type { RunnerInfo, RunnerStatus } from '../runner/runner.ts';
import type { TokenLimits } from '../server/route-group.ts';
import type { EncodedText } from '../tokenizer/tokenizer.ts';

/** The most tokens of a prompt and its answer together, and of each by itself. */
export type ContextLimit = Pick<RunnerInfo, 'maxModelLen'> & TokenLimits;

/** The model and the limits of its runner. Throws a 503 that says why there are none yet. */
export function requireReady(served: Pick<ServedModel, 'model' | 'runner'>): {
  model: Model;
  info: RunnerInfo;
} {
  const { model, runner } = served;
  const { info, state } = runner.status();
  const taken = state === 'ready' || state === 'recovering';
  if (model === undefined || info === undefined || !taken) throw notReady(runner.status());
  return { model, info };
}

/** A 503 that says why no request is taken, and whether a retry can help. */
export function notReady({
  state,
  reason,
  retryAfterSec,
}: Pick<RunnerStatus, 'state' | 'reason' | 'retryAfterSec'>): ApiError {
  return new ApiError({
    status: 503,
    code: 'worker_unhealthy',
    message: reason ?? `The runner is ${state}.`,
    retriable: retryAfterSec !== undefined,
    retryAfterSec,
  });
}

/** The most tokens that an answer may have. Throws a 400 on `field` if there can be none: a prompt is never cut. */
export function tokensLeft(promptIds: readonly number[], limit: ContextLimit, field: string): number {
  const { maxTokensIn = Number.POSITIVE_INFINITY, maxTokensOut = Number.POSITIVE_INFINITY } = limit;
  const { length } = promptIds;
  if (length === 0) throw noTokens(field);
  const left = limit.maxModelLen - length;
  if (left <= 0) throw tooLong(field, `${length}`, limit);
  if (length > maxTokensIn) {
    const message = `This server's maximum prompt length is ${maxTokensIn} tokens, but ${field} takes ${length}; send less`;
    throw contextError(field, maxTokensIn, message);
  }
  return Math.min(left, maxTokensOut);
}

/** Throws a 400 unless the ids fit into the context. It is for texts without an answer, which may fill the context. */
export function requireInContext(ids: readonly number[], { maxModelLen }: ContextLimit, field: string): void {
  if (ids.length === 0) throw noTokens(field);
  if (ids.length <= maxModelLen) return;
  throw contextError(
    field,
    maxModelLen,
    `${maximum(maxModelLen)}, but ${field} takes ${ids.length}; send less`,
  );
}

function noTokens(field: string): ApiError {
  const message = `${field} is empty for this model: it has no tokens`;
  const fieldErrors = [{ field, constraint: 'tokens(1..)', message }];
  return new ApiError({ status: 400, code: 'invalid_request', message, fieldErrors });
}

/** The smaller of `max_tokens` and what tokensLeft() gave. Throws a 400 if `min_tokens` do not fit. */
export function maxTokensWithin(
  left: number,
  { maxModelLen, maxTokensOut }: ContextLimit,
  minTokens: number,
  maxTokens: number,
): number {
  if (minTokens <= left) return Math.min(maxTokens, left);
  const room =
    left === maxTokensOut
      ? `This server's maximum answer length is ${left} tokens`
      : `${maximum(maxModelLen)}, of which ${left} remain after the prompt`;
  const message = `${room}, but min_tokens asks for ${minTokens}`;
  const fieldErrors = [
    { field: 'min_tokens', constraint: `range(0..=${left})`, message, value: String(minTokens) },
  ];
  throw new ApiError({ status: 400, code: 'context_length_exceeded', message, fieldErrors });
}

/**
 * Encodes the prompts that are text. A text that is too long by its bytes alone is not encoded, and nor are those after it;
 * requireIds() refuses it.
 */
export async function encodePrompts(
  prompts: readonly (string | readonly number[])[],
  { tokenizer }: Model,
  { maxModelLen }: ContextLimit,
  signal?: AbortSignal,
): Promise<readonly EncodedText[]> {
  const texts = prompts.filter((prompt) => typeof prompt === 'string');
  const options = { addSpecial: true, parseSpecial: false, maxTokens: maxModelLen };
  const encoded = (await tokenizer.encodeTexts(texts, options, signal)).values();
  const ids: EncodedText[] = [];
  for (const prompt of prompts) {
    const next = typeof prompt === 'string' ? encoded.next().value : prompt;
    if (next === undefined) break;
    ids.push(next);
  }
  return ids;
}

/** The ids of a prompt. Throws a 400 if it is too long to be encoded. */
export function requireIds(
  encoded: EncodedText | undefined,
  limit: ContextLimit,
  field: string,
): readonly number[] {
  if (encoded === undefined)
    throw new Error(`${field} was not encoded, though no prompt before it is refused.`);
  if ('leastTokens' in encoded) throw contextExceeded(field, encoded.leastTokens, limit);
  return encoded;
}

/** The ids of one text. Throws a 400 if it is too long to be encoded. */
export async function encodePrompt(
  text: string,
  model: Model,
  limit: ContextLimit,
  field: string,
  signal?: AbortSignal,
): Promise<readonly number[]> {
  const [encoded] = await encodePrompts([text], model, limit, signal);
  return requireIds(encoded, limit, field);
}

/** The error for a prompt whose tokens were not counted, because there are too many in any case. */
export function contextExceeded(field: string, leastTokens: number, info: ContextLimit): ApiError {
  return tooLong(field, `at least ${leastTokens}`, info);
}

function tooLong(field: string, numTokens: string, { maxModelLen }: ContextLimit): ApiError {
  const message = `${maximum(maxModelLen)}, of which an answer needs at least one, but ${field} takes ${numTokens}; send less`;
  return contextError(field, maxModelLen, message);
}

function contextError(field: string, maxModelLen: number, sentence: string): ApiError {
  const message = `${sentence} (context_length_exceeded)`;
  return new ApiError({
    status: 400,
    code: 'context_length_exceeded',
    message,
    fieldErrors: [{ field, constraint: `context(${maxModelLen})`, message }],
  });
}

/**
 * LangChain, LiteLLM and similar clients recognize a full context by these words of OpenAI's, or by the code's name in the
 * message, not by the code itself.
 */
function maximum(maxModelLen: number): string {
  return `This model's maximum context length is ${maxModelLen} tokens`;
}
