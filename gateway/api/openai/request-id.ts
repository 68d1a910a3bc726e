import { randomUUID } from 'node:crypto';
import type { MiddlewareHandler } from 'hono';
import { ApiError } from '../error.ts';
import { shown } from '../fields.ts';

declare module 'hono' {
  interface ContextVariableMap {
    /** On OpenAI's routes: what the client can name when it asks about a request. */
    requestId: string;
  }
}

const HEADER = 'x-request-id';
const FORM = /^[A-Za-z0-9._-]{1,128}$/;

/** Every answer has an x-request-id, errors too: the client's own if it sent one, else a new one. */
export const requestId: MiddlewareHandler = async (c, next) => {
  const given = c.req.header(HEADER);
  const isGood = given !== undefined && FORM.test(given);
  const id = isGood ? given : randomUUID();
  c.set('requestId', id);
  c.header(HEADER, id);
  if (given !== undefined && !isGood) {
    const message = `The header ${HEADER} must be 1 to 128 characters of A-Z, a-z, 0-9, ".", "_" and "-" (got ${JSON.stringify(shown(given))}).`;
    throw new ApiError({ status: 400, code: 'invalid_request', message, param: HEADER });
  }
  await next();
};
