import { randomUUID } from 'node:crypto';
import type { MiddlewareHandler } from 'hono';

declare module 'hono' {
  interface ContextVariableMap {
    /** On OpenAI's routes: what the client can name when it asks about a request. */
    requestId: string;
  }
}

const HEADER = 'x-request-id';
const FORM = /^[A-Za-z0-9._-]{1,128}$/;

/**
 * Every answer has an x-request-id, errors too: the client's own if it sent one, else a new one. One of another form is
 * replaced, as a correlation id is.
 */
export const requestId: MiddlewareHandler = async (c, next) => {
  const given = c.req.header(HEADER);
  const id = given !== undefined && FORM.test(given) ? given : randomUUID();
  c.set('requestId', id);
  c.header(HEADER, id);
  await next();
};
