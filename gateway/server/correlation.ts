import type { Context, MiddlewareHandler } from 'hono';
import type { Ids } from '../system/ids.ts';

/**
 * The header with a request's correlation id. A client sends one or is given one, to find the request in the logs of
 * every server that it passed.
 */

export const CORRELATION_HEADER = 'X-Correlation-Id';

const VARIABLE = 'correlationId';
const FORM = /^[A-Za-z0-9-]{1,64}$/;

/**
 * Takes the request's correlation id or draws one, and echoes it in every answer. An id of another form, such as other
 * servers use, is replaced: no request is refused for the sake of a log, and no unexpected characters get into a log.
 */
export function correlation(ids: Ids): MiddlewareHandler {
  return async (c, next) => {
    const given = c.req.header(CORRELATION_HEADER);
    const id = given !== undefined && FORM.test(given) ? given : ids.uuid();
    c.set(VARIABLE, id);
    await next();
    c.header(CORRELATION_HEADER, id);
  };
}

export function correlationIdOf(c: Context): string {
  return c.get(VARIABLE) as string;
}
