import { ApiError, type ErrorStatus } from '../errors/api-error.ts';
import { UnavailableError } from '../errors/thrown.ts';
import { JournalRefusal } from '../journal/journal-error.ts';
import { GenerationError, type GenerationErrorCode } from '../runner/runner.ts';

const GENERATION_ERRORS: Record<GenerationErrorCode, { status: ErrorStatus; code: string }> = {
  INVALID_REQUEST: { status: 400, code: 'invalid_request' },
  CANCELLED: { status: 500, code: 'cancelled' },
  TIMEOUT: { status: 504, code: 'timeout' },
  // The request does not fit even into an empty cache, so a retry fails too.
  OUT_OF_MEMORY: { status: 400, code: 'vram_oom' },
  QUEUE_FULL: { status: 429, code: 'queue_full' },
  NOT_READY: { status: 503, code: 'worker_unhealthy' },
  INFERENCE_FAILED: { status: 500, code: 'inference_failed' },
  // The request's constraints contradict each other, so a retry fails too.
  GRAMMAR_FAILED: { status: 400, code: 'grammar_failed' },
  RUNNER_CRASHED: { status: 500, code: 'runner_crashed' },
};

/**
 * Turns anything thrown into the error that a client may see. An unexpected error becomes a 500 without internal details.
 */
export function toApiError(error: unknown): ApiError {
  return error instanceof ApiError ? error : new ApiError({ ...optionsOf(error), cause: error });
}

function optionsOf(error: unknown): ConstructorParameters<typeof ApiError>[0] {
  if (error instanceof GenerationError) {
    const { code, message, retriable, retryAfterSec } = error;
    return { ...GENERATION_ERRORS[code], message, retriable, retryAfterSec };
  }
  if (error instanceof JournalRefusal) {
    const { message, reason, retryAfterSec } = error;
    return {
      status: 503,
      code: reason === 'full' ? 'journal_full' : 'journal_failed',
      message,
      retriable: retryAfterSec !== undefined,
      retryAfterSec,
    };
  }
  if (error instanceof UnavailableError) {
    const { message, retryAfterSec } = error;
    return { status: 503, code: 'overloaded', message, retriable: true, retryAfterSec };
  }
  const message = 'Internal error in the gateway; its log has the details.';
  return { status: 500, code: 'internal_error', message };
}
