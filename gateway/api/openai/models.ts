import { Hono } from 'hono';
import { findModel } from '../../calls/use-model.ts';
import type { ServedModel } from '../../models/model-registry.ts';
import type { RouteDeps } from '../../server/route-group.ts';
import type { ModelList, ModelObject } from './answers.ts';

/** OpenAI's list of the served models. A model with several names is listed once for each. */
export function modelRoutes(deps: RouteDeps): Hono {
  const app = new Hono();

  app.get('/v1/models', (c) => {
    const data = deps.models.all.flatMap((model) =>
      model.names.map((name) => modelObject(name, model, deps)),
    );
    return c.json({ object: 'list', data } satisfies ModelList);
  });

  // A model's name may contain slashes, as names of hubs do, and some clients do not escape them.
  app.get('/v1/models/:name{.+}', (c) => {
    const name = c.req.param('name');
    return c.json(modelObject(name, findModel(name, deps), deps));
  });

  return app;
}

function modelObject(
  name: string,
  { created, residency, runner }: ServedModel,
  { models }: RouteDeps,
): ModelObject {
  const { info } = runner.status();
  // The context length under vLLM's name and under the hubs' name. It is unknown until a runner has been ready.
  const context = info && { max_model_len: info.maxModelLen, context_length: info.maxModelLen };
  const model: ModelObject = { id: name, object: 'model', created, owned_by: 'runnel', ...context };
  // The sole model is listed only once it is loaded.
  if (models.sole !== undefined) return model;
  const { state, progress, reason } = residency;
  return { ...model, status: { state, progress: progress ?? null, reason: reason ?? null } };
}
