import { Hono } from 'hono';
import type { ServedModel } from '../../models/served-model.ts';
import type { RouteDeps } from '../../server/route-group.ts';
import { findModel } from '../use-model.ts';
import type { ModelList, ModelObject } from './answers.ts';

/** OpenAI's list of models: those that are served, each once for each of its names. */
export function modelRoutes(deps: RouteDeps): Hono {
  const app = new Hono();

  app.get('/v1/models', (c) => {
    const data = deps.models.all.flatMap((model) => model.names.map((name) => modelObject(name, model)));
    return c.json({ object: 'list', data } satisfies ModelList);
  });

  // A name may have slashes in it, as those of hubs have, and some clients leave them as they are.
  app.get('/v1/models/:name{.+}', (c) => {
    const name = c.req.param('name');
    return c.json(modelObject(name, findModel(name, deps)));
  });

  return app;
}

function modelObject(name: string, { created, isOnDemand, residency, runner }: ServedModel): ModelObject {
  const { info } = runner.status();
  // By the name that vLLM has for it, and by that of hubs. Until a runner has been ready, nobody knows.
  const context = info && { max_model_len: info.maxModelLen, context_length: info.maxModelLen };
  const model: ModelObject = { id: name, object: 'model', created, owned_by: 'runnel', ...context };
  if (!isOnDemand) return model;
  const { state, progress, reason } = residency;
  return { ...model, status: { state, progress: progress ?? null, reason: reason ?? null } };
}
