import type { MiddlewareHandler } from 'hono';
import type { z } from 'zod';
import { answer } from '../calls/answer.ts';
import { ApiError } from '../errors/api-error.ts';
import { tellIgnored } from '../server/request-log.ts';
import type { Answer, Operation } from '../server/route-group.ts';
import type { Ids } from '../system/ids.ts';
import type { Codec } from './body.ts';
import { readJson } from './json.ts';

declare module 'hono' {
  interface ContextVariableMap {
    /** The id that clients of OpenAI's and Anthropic's routes can name when they ask about a request. */
    requestId: string;
  }
}

type Make = NonNullable<Operation['handler']>;
type More = Partial<Operation>;

/** more: what else a route has. */
export function get(path: string, summary: string, handler: Make, ok: Answer, more: More = {}): Operation {
  return { method: 'get', path, summary, handler, answers: { 200: ok }, ...more };
}

export function post(
  path: string,
  summary: string,
  handler: Make,
  body: z.ZodType,
  ok: Answer,
  more: More = {},
): Operation {
  return { method: 'post', path, summary, handler, body, answers: { 200: ok }, ...more };
}

export function calling(path: string, summary: string, { body, parse }: Codec, ok: Answer): Operation {
  const handler: Make = (deps) => async (c) => {
    const sent = await readJson(c);
    const parsed = parse(sent);
    tellIgnored(c, deps.log, parsed.ignored);
    return answer(c, deps, parsed, sent);
  };
  return post(path, summary, handler, body, ok);
}

/** A route of an API that this server does not have. message: what to do instead. */
export function missing(method: Operation['method'], path: string, message: string): Operation {
  const handler = () => () => {
    throw new ApiError({ status: 501, code: 'not_supported', message });
  };
  return { method, path, summary: `501: ${message.replace(/\.$/, '')}`, answers: {}, handler };
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
