import type { RouteGroup } from '../../server/route-group.ts';
import { chatRoutes } from './chat-completions.ts';
import { completionRoutes } from './completions.ts';
import { openAiErrorBody, openAiErrorSchema, shouldRetry } from './errors.ts';
import { modelRoutes } from './models.ts';
import { openAiOperations } from './operations.ts';
import { requestId } from './request-id.ts';

/** OpenAI's API. */
export const openAiGroup: RouteGroup = {
  name: 'openai',
  paths: ['/v1/*'],
  access: 'key',
  generating: ['/v1/chat/completions', '/v1/completions'],
  routes: [chatRoutes, completionRoutes, modelRoutes],
  begin: requestId,
  operations: openAiOperations,
  errorSchema: openAiErrorSchema,
  errorAnswer: (c, error) => {
    c.header('x-should-retry', String(shouldRetry(error)));
    return { body: openAiErrorBody(error) };
  },
};
