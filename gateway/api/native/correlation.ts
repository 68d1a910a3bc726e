import { randomUUID } from 'node:crypto';
import type { Context, MiddlewareHandler } from 'hono';
import { ApiError } from '../error.ts';

/** An id that a client gives a request, or gets for it, to find it again in the logs of every server it passed. */

export const CORRELATION_HEADER = 'X-Correlation-Id';

const VARIABLE = 'correlationId';

/** Takes the request's id or draws one, and echoes it in the answer, whatever that is. */
export const correlation: MiddlewareHandler = async (c, next) => {
  const header = c.req.header(CORRELATION_HEADER);
  if (header !== undefined && !/^[A-Za-z0-9-]{1,64}$/.test(header)) {
    const message = `${CORRELATION_HEADER} must be 1 to 64 letters, digits and hyphens`;
    const fieldErrors = [{ field: CORRELATION_HEADER, constraint: 'correlation_id', message }];
    throw new ApiError({ status: 400, code: 'invalid_request', message, fieldErrors });
  }
  const id = header ?? randomUUID();
  c.set(VARIABLE, id);
  await next();
  c.header(CORRELATION_HEADER, id);
};

/** Undefined only for a request whose own id was refused. */
export function correlationIdOf(c: Context): string | undefined {
  return c.get(VARIABLE) as string | undefined;
}
