import { Hono } from 'hono';
import { countTokens } from '../../calls/answer.ts';
import { shouldRetry } from '../../errors/api-error.ts';
import { tellIgnored } from '../../server/ignored-fields.ts';
import { json, jsonOrEvents, type Operation } from '../../server/operation.ts';
import type { RouteDeps, RouteGroup } from '../../server/route-group.ts';
import { callRoute } from '../call-route.ts';
import { readJson } from '../json.ts';
import { requestId } from '../request-id.ts';
import { messageEventSchemas, messageSchema, tokenCountSchema } from './answers.ts';
import { anthropicErrorBody, anthropicErrorSchema } from './errors.ts';
import { countSchema, messagesSchema, parseCount, parseMessages } from './messages-request.ts';

const operations: readonly Operation[] = [
  {
    method: 'post',
    path: '/v1/messages',
    summary: 'The next message of a conversation, by Anthropic’s API',
    body: messagesSchema,
    answers: {
      200: jsonOrEvents('A message, or the events from message_start to message_stop.', messageSchema, {
        named: { ...messageEventSchemas, error: anthropicErrorSchema },
      }),
    },
  },
  {
    method: 'post',
    path: '/v1/messages/count_tokens',
    summary: 'How many tokens a conversation has',
    body: countSchema,
    answers: { 200: json('input_tokens.', tokenCountSchema) },
  },
];

function countRoute(deps: RouteDeps): Hono {
  return new Hono().post('/v1/messages/count_tokens', async (c) => {
    const { call, ignored } = parseCount(await readJson(c));
    tellIgnored(c, deps.log, ignored);
    return c.json({ input_tokens: await countTokens(c, deps, call) });
  });
}

/** Anthropic's API. Its paths have the prefix of OpenAI's, so its group comes first. */
export const anthropicGroup: RouteGroup = {
  name: 'anthropic',
  paths: ['/v1/messages/*'],
  access: 'key',
  generating: ['/v1/messages'],
  routes: [callRoute('/v1/messages', parseMessages), countRoute],
  begin: (ids) => {
    const withId = requestId(ids);
    return (c, next) =>
      withId(c, async () => {
        // Anthropic's clients look for the request id under this name.
        c.header('request-id', c.get('requestId'));
        await next();
      });
  },
  operations,
  errorSchema: anthropicErrorSchema,
  errorAnswer: (c, error) => {
    c.header('x-should-retry', String(shouldRetry(error)));
    return { body: anthropicErrorBody(error, c.get('requestId')) };
  },
};
