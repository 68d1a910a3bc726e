/** One fault of one field. `value` is the field's value as text; it is left out where it may be private. */
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
  readonly param?: string;
  readonly fieldErrors?: readonly FieldError[];
  readonly retriable?: boolean;
  readonly retryAfterSec?: number | undefined;
  readonly cause?: unknown;
}

/**
 * An error as a client sees it: as the answer, or in a stream that has begun. The folders under api/ give it its form.
 */
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

/** A 400 for one field. */
export function invalidField({
  code = 'invalid_request',
  ...fault
}: FieldError & { readonly code?: string }): ApiError {
  return new ApiError({ status: 400, code, message: fault.message, fieldErrors: [fault] });
}

/** A 400 for a field that cannot be obeyed here, or with this model. */
export function unsupported(param: string, message: string, cause?: unknown): ApiError {
  return new ApiError({ status: 400, code: 'unsupported_parameter', message, param, cause });
}

/**
 * The value of x-should-retry, which OpenAI's clients obey before any rule of their own. It is never true after a time
 * limit: a server that is too slow for a request would get it three times.
 */
export function shouldRetry({ status, retriable }: ApiError): boolean {
  return retriable && status !== 504;
}

/** How many characters of a wrong value an answer repeats. */
const MAX_SHOWN_CHARACTERS = 64;

export function shown(value: unknown): string {
  const whole = String(value);
  return whole.length <= MAX_SHOWN_CHARACTERS ? whole : `${whole.slice(0, MAX_SHOWN_CHARACTERS)}…`;
}
