import { RequestError } from '@hono/node-server';
import { ApiError } from '../errors/api-error.ts';
import type { AnswerUnreadable } from '../server/connections.ts';
import { CORRELATION_HEADER } from '../server/request-log.ts';
import { toApiError } from '../server/to-api-error.ts';
import type { Ids } from '../system/ids.ts';
import type { Log } from '../telemetry/log.ts';

/**
 * The bodies of errors in the two forms that answers outside of the application have too, and these answers. They are needed before
 * any schema is.
 */

/** The form is openAiErrorSchema of error-schemas.ts. */
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

/** The body of an error whose path is unknown. Its client may use the native API or OpenAI's, so it has the members of both. */
export function errorOfUnknownPath(error: ApiError): object {
  return { ...nativeErrorBody(error), ...openAiErrorBody(error) };
}

/** Answers and logs a request that the application has not seen or could not answer. */
export function answerOutside(error: unknown, log: Log, ids: Ids): Response {
  if (error instanceof RequestError) {
    const message = 'The path or the Host header is not valid.';
    const unreadable = new ApiError({ status: 400, code: 'invalid_request', message });
    const { headers, body } = answerUnreadable(unreadable, log, ids);
    // The request may have a body that nobody reads, so the connection is closed.
    return new Response(body, { status: 400, headers: { ...headers, connection: 'close' } });
  }
  const correlationId = ids.uuid();
  log.error({ event: 'error', code: 'internal_error', correlation_id: correlationId, err: error });
  const answer = toApiError(error);
  const headers = { [CORRELATION_HEADER]: correlationId, connection: 'close' };
  return Response.json(nativeErrorBody(answer), { status: answer.status, headers });
}

/** Answers and logs a request whose path is unknown. */
export function answerUnreadable(error: ApiError, log: Log, ids: Ids): ReturnType<AnswerUnreadable> {
  const { status, code } = error;
  const correlationId = ids.uuid();
  log.info({ event: 'request', method: null, route: null, status, code, correlation_id: correlationId });
  return {
    headers: { [CORRELATION_HEADER]: correlationId, 'content-type': 'application/json' },
    body: JSON.stringify(errorOfUnknownPath(error)),
  };
}
