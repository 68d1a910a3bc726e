import type { RouteGroup } from '../../server/route-group.ts';
import { callRoute } from '../call-route.ts';
import { missingRoutes } from '../missing-routes.ts';
import { keptResponseRoutes } from '../responses/background.ts';
import { MISSING } from '../responses/missing.ts';
import { responseOperations } from '../responses/operations.ts';
import { responseRoutes } from '../responses/responses.ts';
import { parseChat } from './chat-request.ts';
import { parseCompletions } from './completion-request.ts';
import { embeddingRoutes } from './embeddings.ts';
import { openAiErrorBody, openAiErrorSchema, shouldRetry } from './errors.ts';
import { modelRoutes } from './models.ts';
import { openAiOperations } from './operations.ts';
import { requestId } from './request-id.ts';

/** OpenAI's API. */
export const openAiGroup: RouteGroup = {
  name: 'openai',
  paths: ['/v1/*'],
  access: 'key',
  generating: ['/v1/chat/completions', '/v1/completions', '/v1/embeddings', '/v1/responses'],
  routes: [
    callRoute('/v1/chat/completions', parseChat),
    callRoute('/v1/completions', parseCompletions),
    embeddingRoutes,
    responseRoutes,
    keptResponseRoutes,
    () => missingRoutes(MISSING),
    modelRoutes,
  ],
  begin: requestId,
  operations: [...openAiOperations, ...responseOperations],
  errorSchema: openAiErrorSchema,
  errorAnswer: (c, error) => {
    c.header('x-should-retry', String(shouldRetry(error)));
    return { body: openAiErrorBody(error) };
  },
};
