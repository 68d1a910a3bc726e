import type { RouteGroup } from '../../server/route-group.ts';
import { missingRoutes } from '../missing-routes.ts';
import { generatingRoutes } from './answer.ts';
import { embedRoutes } from './embed.ts';
import { ollamaErrorAnswer, ollamaErrorSchema } from './errors.ts';
import { MISSING } from './missing.ts';
import { modelRoutes } from './models.ts';
import { ollamaOperations } from './operations.ts';
import { pullRoutes } from './pull.ts';

export const ollamaGroup: RouteGroup = {
  name: 'ollama',
  paths: ['/api/*'],
  access: 'key',
  generating: ['/api/chat', '/api/generate', '/api/embed', '/api/embeddings'],
  routes: [generatingRoutes, embedRoutes, modelRoutes, pullRoutes, () => missingRoutes(MISSING)],
  operations: ollamaOperations,
  errorSchema: ollamaErrorSchema,
  errorAnswer: (_, error) => ollamaErrorAnswer(error),
};
