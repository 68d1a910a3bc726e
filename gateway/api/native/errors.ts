import type { ApiError } from '../../errors/api-error.ts';

/** Bodies of native errors: every field at fault, or a code with whether sending it again can help. */
export function nativeErrorBody(error: ApiError): object {
  if (error.fieldErrors.length > 0) return { errors: error.fieldErrors };
  return { code: error.code.toUpperCase(), message: error.message, retriable: error.retriable };
}
