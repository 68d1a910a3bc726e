import type { Handler } from 'hono';
import { countTokens } from '../../calls/answer.ts';
import { shouldRetry } from '../../errors/api-error.ts';
import { tellIgnored } from '../../server/request-log.ts';
import { json, jsonOrEvents, type RouteDeps, type RouteGroup } from '../../server/route-group.ts';
import { readJson } from '../json.ts';
import { answering, requestId } from '../route.ts';
import {
  anthropicErrorBody,
  anthropicErrorSchema,
  messageEventSchemas,
  messageSchema,
  tokenCountSchema,
} from './answers.ts';
import { countSchema, messagesSchema, parseCount, parseMessages } from './messages-request.ts';

/** Anthropic's API. Its paths have the prefix of OpenAI's, so its group comes first. */
export const anthropicGroup: RouteGroup = {
  name: 'anthropic',
  paths: ['/v1/messages/*'],
  access: 'key',
  generating: ['/v1/messages'],
  // Anthropic's clients look for the id under the second name.
  begin: requestId('request-id'),
  operations: [
    {
      method: 'post',
      path: '/v1/messages',
      summary: 'The next message of a conversation, by Anthropic’s API',
      handler: answering(parseMessages),
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
      handler: counting,
      body: countSchema,
      answers: { 200: json('input_tokens.', tokenCountSchema) },
    },
  ],
  errorSchema: anthropicErrorSchema,
  errorAnswer: (c, error) => {
    c.header('x-should-retry', String(shouldRetry(error)));
    return { body: anthropicErrorBody(error, c.get('requestId')) };
  },
};

function counting(deps: RouteDeps): Handler {
  return async (c) => {
    const { call, ignored } = parseCount(await readJson(c));
    tellIgnored(c, deps.log, ignored);
    return c.json({ input_tokens: await countTokens(c, deps, call) });
  };
}
