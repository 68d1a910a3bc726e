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

/** A prompt that came as ids, if the runner's vocabulary has all of them; else a 400 on `field`. */
export function requireInVocabulary(promptIds: readonly number[], info: RunnerInfo, field: string): void {
  const index = promptIds.findIndex((id) => id >= info.vocabSize);
  if (index < 0) return;
  const message = `${field}[${index}] is ${promptIds[index]}, but the vocabulary ends at ${info.vocabSize - 1}`;
  const fieldErrors = [{ field, constraint: `range(0..${info.vocabSize})`, message }];
  throw new ApiError({ status: 400, code: 'invalid_request', message, fieldErrors });
}

/** Tokens that fit behind a prompt, or a 400 on `field` when none does. Nothing is ever cut off a prompt. */
export function tokensLeft(promptIds: readonly number[], info: RunnerInfo, field: string): number {
  const left = info.maxModelLen - promptIds.length;
  if (promptIds.length > 0 && left > 0) return left;
  const message =
    promptIds.length === 0
      ? `${field} has no tokens; send at least one character`
      : `${field} has ${promptIds.length} tokens, but the context holds ${info.maxModelLen} and an answer needs at least one of them`;
  throw new ApiError({
    status: 400,
    code: 'context_length_exceeded',
    message,
    fieldErrors: [{ field, constraint: `context(${info.maxModelLen})`, message }],
  });
}
