import { GenerationError, type GenerationErrorCode } from '../runner/runner.ts';
import { OverloadedError } from '../system/cooperative-scheduler.ts';

/** One thing that is wrong with one field. `value` is the value as text, left out where it may be private. */
export interface FieldError {
  readonly field: string;
  readonly constraint: string;
  readonly message: string;
  readonly value?: string;
}

export type ErrorStatus =
  | 400
  | 401
  | 403
  | 404
  | 405
  | 408
  | 409
  | 413
  | 415
  | 429
  | 431
  | 500
  | 501
  | 503
  | 504;

interface ApiErrorOptions {
  readonly status: ErrorStatus;
  /** Machine-readable. On OpenAI routes it is sent as is, on native ones in upper case. */
  readonly code: string;
  readonly message: string;
  /** The field at fault, where it is one field. */
  readonly param?: string;
  /** All fields at fault. */
  readonly fieldErrors?: readonly FieldError[];
  readonly retriable?: boolean;
  readonly retryAfterSec?: number | undefined;
  readonly cause?: unknown;
}

/** An answer other than 200, before anything was streamed. The folders under api/ give it its shape. */
export class ApiError extends Error {
  override readonly name = 'ApiError';
  readonly status: ErrorStatus;
  readonly code: string;
  readonly param: string | undefined;
  readonly fieldErrors: readonly FieldError[];
  readonly retriable: boolean;
  readonly retryAfterSec: number | undefined;

  constructor(options: ApiErrorOptions) {
    super(options.message, { cause: options.cause });
    this.status = options.status;
    this.code = options.code;
    this.param = options.param ?? options.fieldErrors?.[0]?.field;
    this.fieldErrors = options.fieldErrors ?? [];
    this.retriable = options.retriable ?? false;
    this.retryAfterSec = options.retryAfterSec;
  }
}

const GENERATION_ERRORS: Record<GenerationErrorCode, { status: ErrorStatus; code: string }> = {
  INVALID_REQUEST: { status: 400, code: 'invalid_request' },
  CANCELLED: { status: 500, code: 'cancelled' },
  TIMEOUT: { status: 504, code: 'timeout' },
  // Even an empty cache could not hold it: sending it again gives the same.
  OUT_OF_MEMORY: { status: 400, code: 'vram_oom' },
  QUEUE_FULL: { status: 429, code: 'queue_full' },
  NOT_READY: { status: 503, code: 'worker_unhealthy' },
  INFERENCE_FAILED: { status: 500, code: 'inference_failed' },
  // What it asks for cannot be had together: sending it again gives the same.
  GRAMMAR_FAILED: { status: 400, code: 'grammar_failed' },
  RUNNER_CRASHED: { status: 500, code: 'runner_crashed' },
};

/** Any thrown thing as the error a client may see. What nobody foresaw is a 500 that tells nothing of the inside. */
export function toApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  if (error instanceof GenerationError) {
    const { status, code } = GENERATION_ERRORS[error.code];
    return new ApiError({
      status,
      code,
      message: error.message,
      retriable: error.retriable,
      retryAfterSec: error.retryAfterSec,
      cause: error,
    });
  }
  if (error instanceof OverloadedError) {
    const { message } = error;
    return new ApiError({ status: 503, code: 'overloaded', message, retriable: true, retryAfterSec: 1 });
  }
  return new ApiError({
    status: 500,
    code: 'internal_error',
    message: 'The gateway met an error of its own; its log has the details.',
    cause: error,
  });
}
