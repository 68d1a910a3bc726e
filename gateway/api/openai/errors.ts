import * as z from 'zod';
import type { ApiError } from '../../errors/api-error.ts';

/** The error object that OpenAI's clients parse. It is also sent in a stream that has begun. */
export interface OpenAiErrorBody {
  readonly error: {
    readonly message: string;
    readonly type: string;
    readonly param: string | null;
    readonly code: string | null;
  };
}

export function openAiErrorBody(error: ApiError): OpenAiErrorBody {
  return {
    error: {
      message: error.message,
      type: errorType(error.status),
      param: error.param ?? null,
      code: error.code,
    },
  };
}

function errorType(status: number): string {
  if (status === 401) return 'authentication_error';
  if (status === 403) return 'permission_error';
  if (status === 404) return 'not_found_error';
  if (status === 429) return 'rate_limit_error';
  return status < 500 ? 'invalid_request_error' : 'server_error';
}

export const openAiErrorSchema = z
  .object({
    error: z.object({
      message: z.string(),
      type: z.string(),
      param: z.string().nullable(),
      code: z.string().nullable(),
    }),
  })
  .meta({ title: 'OpenAiError' }) satisfies z.ZodType<OpenAiErrorBody>;
