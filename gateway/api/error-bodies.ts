import type { ApiError } from '../errors/api-error.ts';

/** The bodies of errors in the two forms that answers outside of the application have too. They are needed before any schema is. */

/** The form is openAiErrorSchema. */
interface OpenAiErrorBody {
  readonly error: {
    readonly message: string;
    readonly type: string;
    readonly param: string | null;
    readonly code: string | null;
  };
}

/** The body of a native error: all fields at fault, or a code and whether a retry can help. */
export function nativeErrorBody(error: ApiError): object {
  if (error.fieldErrors.length > 0) return { errors: error.fieldErrors };
  return { code: error.code.toUpperCase(), message: error.message, retriable: error.retriable };
}

export function openAiErrorBody(error: ApiError): OpenAiErrorBody {
  const { message, status, param = null, code } = error;
  const type = ERROR_TYPES[status] ?? (status < 500 ? 'invalid_request_error' : 'server_error');
  return { error: { message, type, param, code } };
}

const ERROR_TYPES: Partial<Record<ApiError['status'], string>> = {
  401: 'authentication_error',
  403: 'permission_error',
  404: 'not_found_error',
  429: 'rate_limit_error',
};
