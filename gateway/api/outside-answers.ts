import { randomUUID } from 'node:crypto';
import { RequestError } from '@hono/node-server';
import { ApiError } from '../errors/api-error.ts';
import { CORRELATION_HEADER } from '../server/correlation.ts';
import { toApiError } from '../server/to-api-error.ts';
import type { AnswerUnreadable } from '../server/unreadable-requests.ts';
import type { Log } from '../telemetry/log.ts';
import { nativeErrorBody } from './native/errors.ts';
import { openAiErrorBody } from './openai/errors.ts';

/** Answers to what the application does not see. */

/** What to answer a request that the application has not seen, or has failed at altogether. */
export function answerOutside(error: unknown, log: Log): Response {
  if (error instanceof RequestError) {
    const message = 'The path or the header Host is no part of a URL.';
    const unreadable = new ApiError({ status: 400, code: 'invalid_request', message });
    const { headers, body } = answerUnreadable(unreadable, log);
    // Nobody has looked whether the request has a body.
    return new Response(body, { status: 400, headers: { ...headers, connection: 'close' } });
  }
  const correlationId = randomUUID();
  log.error({ event: 'error', code: 'internal_error', correlation_id: correlationId, err: error });
  const answer = toApiError(error);
  const headers = { [CORRELATION_HEADER]: correlationId, connection: 'close' };
  return Response.json(nativeErrorBody(answer), { status: answer.status, headers });
}

/** The same of one whose path nobody knows: it may be of a client of either API. Logs its line. */
export function answerUnreadable(error: ApiError, log: Log): ReturnType<AnswerUnreadable> {
  const { status, code } = error;
  const correlationId = randomUUID();
  log.info({ event: 'request', method: null, route: null, status, code, correlation_id: correlationId });
  return {
    headers: { [CORRELATION_HEADER]: correlationId, 'content-type': 'application/json' },
    body: JSON.stringify({ ...nativeErrorBody(error), ...openAiErrorBody(error) }),
  };
}
