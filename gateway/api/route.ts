import type { Handler, MiddlewareHandler } from 'hono';
import { answer } from '../calls/answer.ts';
import type { ParsedCall } from '../calls/call.ts';
import { ApiError } from '../errors/api-error.ts';
import { tellIgnored } from '../server/request-log.ts';
import type { Operation, RouteDeps } from '../server/route-group.ts';
import type { Ids } from '../system/ids.ts';
import { readJson } from './json.ts';

declare module 'hono' {
  interface ContextVariableMap {
    /** The id that clients of OpenAI's and Anthropic's routes can name when they ask about a request. */
    requestId: string;
  }
}

/** A route that answers calls. parse: makes a call of a body, or throws a 400 that names every field at fault. */
export function answering(parse: (body: unknown) => ParsedCall): (deps: RouteDeps) => Handler {
  return (deps) => async (c) => {
    const body = await readJson(c);
    const parsed = parse(body);
    tellIgnored(c, deps.log, parsed.ignored);
    return answer(c, deps, parsed, body);
  };
}

/** A route of an API that this server does not have. message: what to do instead. */
export function missing(method: Operation['method'], path: string, message: string): Operation {
  const handler = () => () => {
    throw new ApiError({ status: 501, code: 'not_supported', message });
  };
  return { method, path, summary: `501: ${message}`, answers: {}, handler };
}

const REQUEST_ID = 'x-request-id';
const FORM = /^[A-Za-z0-9._-]{1,128}$/;

/**
 * Gives every answer an x-request-id, errors too: the client's own if it sent one, else a new one. An id of another form
 * is replaced, as a correlation id is. others: more headers with the same id.
 */
export function requestId(...others: string[]): (ids: Ids) => MiddlewareHandler {
  return (ids) => async (c, next) => {
    const given = c.req.header(REQUEST_ID);
    const id = given !== undefined && FORM.test(given) ? given : ids.uuid();
    c.set('requestId', id);
    for (const name of [REQUEST_ID, ...others]) c.header(name, id);
    await next();
  };
}
