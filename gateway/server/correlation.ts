import { randomUUID } from 'node:crypto';
import type { Context, MiddlewareHandler } from 'hono';

/** An id that a client gives a request, or gets for it, to find it again in the logs of every server it passed. */

export const CORRELATION_HEADER = 'X-Correlation-Id';

const VARIABLE = 'correlationId';
const FORM = /^[A-Za-z0-9-]{1,64}$/;

/**
 * Takes the request's id or draws one, and echoes it in the answer, whatever that is. An id of another form, such as other
 * servers have, is replaced: nobody is refused for the sake of a log, and nothing strange gets into one.
 */
export const correlation: MiddlewareHandler = async (c, next) => {
  const given = c.req.header(CORRELATION_HEADER);
  const id = given !== undefined && FORM.test(given) ? given : randomUUID();
  c.set(VARIABLE, id);
  await next();
  c.header(CORRELATION_HEADER, id);
};

export function correlationIdOf(c: Context): string {
  return c.get(VARIABLE) as string;
}
