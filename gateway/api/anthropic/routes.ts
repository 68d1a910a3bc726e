import type { Handler } from 'hono';
import { countTokens } from '../../calls/answer.ts';
import { shouldRetry } from '../../errors/api-error.ts';
import { tellIgnored } from '../../server/request-log.ts';
import { json, jsonOrEvents, type RouteDeps, type RouteGroup } from '../../server/route-group.ts';
import { readJson } from '../json.ts';
import { calling, post, requestId } from '../route.ts';
import {
  anthropicErrorBody,
  anthropicErrorSchema,
  messageEventSchemas,
  messageSchema,
  tokenCountSchema,
} from './message.ts';
import { counted, messages } from './request.ts';

/** Anthropic's API. Its paths have the prefix of OpenAI's, so its group comes first. */
export const anthropicGroup: RouteGroup = {
  name: 'anthropic',
  paths: ['/v1/messages/*'],
  access: 'key',
  generating: ['/v1/messages'],
  // Anthropic's clients look for the id under the second name.
  begin: requestId('request-id'),
  operations: [
    calling(
      '/v1/messages',
      'The next message of a conversation, by Anthropic’s API',
      messages,
      jsonOrEvents('A message, or the events from message_start to message_stop.', messageSchema, {
        named: { ...messageEventSchemas, error: anthropicErrorSchema },
      }),
    ),
    post(
      '/v1/messages/count_tokens',
      'How many tokens a conversation has',
      counting,
      counted.body,
      json('input_tokens.', tokenCountSchema),
    ),
  ],
  errorSchema: anthropicErrorSchema,
  errorAnswer: (c, error) => {
    c.header('x-should-retry', String(shouldRetry(error)));
    return { body: anthropicErrorBody(error, c.get('requestId')) };
  },
};

function counting(deps: RouteDeps): Handler {
  return async (c) => {
    const { call, ignored } = counted.parse(await readJson(c));
    tellIgnored(c, deps.log, ignored);
    return c.json({ input_tokens: await countTokens(c, deps, call) });
  };
}
