import { ApiError } from '../api/error.ts';
import type { AppDeps } from '../app.ts';
import type { Model } from '../model/model.ts';
import type { Steps } from '../ops/long-work.ts';
import type { RunnerInfo } from '../runner/runner.ts';

/** The model and the limits of its runner, or a 503 that says why there are none yet. */
export function requireReady(deps: AppDeps): { model: Model; info: RunnerInfo } {
  const model = deps.model();
  const { info, state } = deps.runner.status();
  const taken = state === 'ready' || state === 'recovering';
  if (model === undefined || info === undefined || !taken) throw notReady(deps);
  return { model, info };
}

/** A 503 that says why no request is taken, and whether waiting helps. */
export function notReady(deps: AppDeps): ApiError {
  const { state, reason, retryAfterSec } = deps.runner.status();
  return new ApiError({
    status: 503,
    code: 'worker_unhealthy',
    message: reason ?? `The runner is ${state}.`,
    retriable: retryAfterSec !== undefined,
    retryAfterSec,
  });
}

/** Tokens that fit behind a prompt, or a 400 on `field` when none does. Nothing is ever cut off a prompt. */
export function tokensLeft(promptIds: readonly number[], info: RunnerInfo, field: string): number {
  const left = info.maxModelLen - promptIds.length;
  if (promptIds.length > 0 && left > 0) return left;
  if (promptIds.length > 0) {
    throw contextError(field, info, `${field} has ${promptIds.length} tokens, ${hint(info)}`);
  }
  const message = `${field} has no tokens: nothing in it is known to this model`;
  const fieldErrors = [{ field, constraint: 'tokens(1..)', message }];
  throw new ApiError({ status: 400, code: 'invalid_request', message, fieldErrors });
}

/** `max_tokens` as far as the context allows it, or a 400 where `min_tokens` do not fit any more. */
export function maxTokensWithin(left: number, minTokens: number, maxTokens: number): number {
  if (minTokens <= left) return Math.min(maxTokens, left);
  const message = `min_tokens is ${minTokens}, but the context holds ${left} tokens behind the prompt`;
  const fieldErrors = [
    { field: 'min_tokens', constraint: `range(0..=${left})`, message, value: String(minTokens) },
  ];
  throw new ApiError({ status: 400, code: 'context_length_exceeded', message, fieldErrors });
}

/** The ids of a text. What is too long by its bytes alone is refused before it is tokenized. */
export function* encodePrompt(text: string, model: Model, info: RunnerInfo, field: string): Steps<number[]> {
  const leastTokens = model.tokenizer.leastTokens(text);
  if (leastTokens > info.maxModelLen) throw contextExceeded(field, leastTokens, info);
  return yield* model.tokenizer.encodeInSteps(text, { addSpecial: true, parseSpecial: false });
}

/** For a prompt whose tokens nobody counted, because there are too many in any case. */
export function contextExceeded(field: string, leastTokens: number, info: RunnerInfo): ApiError {
  return contextError(field, info, `${field} has at least ${leastTokens} tokens, ${hint(info)}`);
}

function hint({ maxModelLen }: RunnerInfo): string {
  return `but the context holds ${maxModelLen} and an answer needs at least one of them`;
}

function contextError(field: string, info: RunnerInfo, message: string): ApiError {
  return new ApiError({
    status: 400,
    code: 'context_length_exceeded',
    message,
    fieldErrors: [{ field, constraint: `context(${info.maxModelLen})`, message }],
  });
}
