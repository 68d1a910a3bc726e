import type { RouteGroup } from '../../server/route-group.ts';
import { shouldRetry } from '../openai/errors.ts';
import { requestId } from '../openai/request-id.ts';
import { anthropicErrorBody, anthropicErrorSchema, requestIdOf } from './errors.ts';
import { messagesRoutes } from './messages.ts';
import { anthropicOperations } from './operations.ts';

/** Anthropic's API. Its paths have the prefix of OpenAI's, so its group comes first. */
export const anthropicGroup: RouteGroup = {
  name: 'anthropic',
  paths: ['/v1/messages/*'],
  access: 'key',
  generating: ['/v1/messages'],
  routes: [messagesRoutes],
  begin: (ids) => {
    const withId = requestId(ids);
    return (c, next) =>
      withId(c, async () => {
        // Anthropic's clients look for the request id under this name.
        c.header('request-id', requestIdOf(c));
        await next();
      });
  },
  operations: anthropicOperations,
  errorSchema: anthropicErrorSchema,
  errorAnswer: (c, error) => {
    c.header('x-should-retry', String(shouldRetry(error)));
    return { body: anthropicErrorBody(error, requestIdOf(c)) };
  },
};
