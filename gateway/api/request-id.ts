import type { MiddlewareHandler } from 'hono';
import type { Ids } from '../system/ids.ts';

declare module 'hono' {
  interface ContextVariableMap {
    /** The id that clients of OpenAI's routes can name when they ask about a request. */
    requestId: string;
  }
}

const HEADER = 'x-request-id';
const FORM = /^[A-Za-z0-9._-]{1,128}$/;

/**
 * Gives every answer an x-request-id, errors too: the client's own if it sent one, else a new one. An id of another form
 * is replaced, as a correlation id is.
 */
export function requestId(ids: Ids): MiddlewareHandler {
  return async (c, next) => {
    const given = c.req.header(HEADER);
    const id = given !== undefined && FORM.test(given) ? given : ids.uuid();
    c.set('requestId', id);
    c.header(HEADER, id);
    await next();
  };
}
