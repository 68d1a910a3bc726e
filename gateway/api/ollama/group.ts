import type { RouteGroup } from '../../server/route-group.ts';
import { chatRoutes } from './chat.ts';
import { ollamaErrorAnswer } from './errors.ts';
import { generateRoutes } from './generate.ts';
import { missingRoutes } from './missing.ts';
import { modelRoutes } from './models.ts';

/** Ollama's API. */
export const ollamaGroup: RouteGroup = {
  name: 'ollama',
  paths: ['/api/*'],
  access: 'key',
  generating: ['/api/chat', '/api/generate'],
  routes: [chatRoutes, generateRoutes, modelRoutes, missingRoutes],
  errorAnswer: (_, error) => ollamaErrorAnswer(error),
};
