import * as z from 'zod';
import type { ApiError } from '../../errors/api-error.ts';

/** The error object that Anthropic's clients parse. It is also the data of an event in a stream that has begun. */
export interface AnthropicErrorBody {
  readonly type: 'error';
  readonly error: {
    readonly type: string;
    readonly message: string;
    readonly details?: { readonly error_code: string } | undefined;
  };
  readonly request_id: string;
}

/** The code of a request for a kept conversation. SDKs look for it, and go on without one. */
export const THREAD_UNSUPPORTED = 'thread_unsupported_request';

export function anthropicErrorBody(error: ApiError, requestId: string): AnthropicErrorBody {
  const { code, message } = error;
  const details = code === THREAD_UNSUPPORTED ? { details: { error_code: code } } : {};
  return { type: 'error', error: { type: errorType(error), message, ...details }, request_id: requestId };
}

const TYPES: Partial<Record<ApiError['status'], string>> = {
  401: 'authentication_error',
  403: 'permission_error',
  404: 'not_found_error',
  413: 'request_too_large',
  429: 'rate_limit_error',
  503: 'overloaded_error',
  504: 'timeout_error',
};

function errorType({ status }: ApiError): string {
  return TYPES[status] ?? (status < 500 ? 'invalid_request_error' : 'api_error');
}

export const anthropicErrorSchema = z
  .object({
    type: z.literal('error'),
    error: z.object({
      type: z.string(),
      message: z.string(),
      details: z.object({ error_code: z.string() }).optional(),
    }),
    request_id: z.string(),
  })
  .meta({ title: 'AnthropicError' }) satisfies z.ZodType<AnthropicErrorBody>;
