import { ApiError } from '../api/error.ts';
import type { AppDeps } from '../app.ts';
import type { Model } from '../model/model.ts';
import type { RunnerInfo } from '../runner/runner.ts';

/** Seconds after which a client that came before the model was ready should try again. */
const NOT_READY_RETRY_AFTER_SEC = 2;

/** The model and the limits of its runner, or a 503 that says why there are none yet. */
export function requireReady(deps: AppDeps): { model: Model; info: RunnerInfo } {
  const model = deps.model();
  const { info, state, reason } = deps.runner.status();
  if (model === undefined || info === undefined || state === 'failed' || state === 'stopping') {
    throw new ApiError({
      status: 503,
      code: 'worker_unhealthy',
      message: reason ?? `The model is not ready yet (${state}).`,
      retriable: true,
      retryAfterSec: NOT_READY_RETRY_AFTER_SEC,
    });
  }
  return { model, info };
}

/** Tokens that fit behind a prompt, or a 400 on `field` when none does. Nothing is ever cut off a prompt. */
export function tokensLeft(promptIds: readonly number[], info: RunnerInfo, field: string): number {
  const left = info.maxModelLen - promptIds.length;
  if (promptIds.length > 0 && left > 0) return left;
  throw contextError(
    field,
    info,
    promptIds.length === 0
      ? `${field} has no tokens; send at least one character`
      : `${field} has ${promptIds.length} tokens, ${hint(info)}`,
  );
}

/**
 * The ids of a text. What is too long by its bytes alone is refused before it is tokenized: everything else would wait
 * for that.
 */
export function encodePrompt(text: string, model: Model, info: RunnerInfo, field: string): number[] {
  const leastTokens = model.tokenizer.leastTokens(text);
  if (leastTokens > info.maxModelLen) throw contextExceeded(field, leastTokens, info);
  return model.tokenizer.encode(text, { addSpecial: true, parseSpecial: false });
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
