import { Hono } from 'hono';
import { ApiError } from '../../errors/api-error.ts';
import { shown } from '../../errors/shown.ts';
import type { Model } from '../../models/model.ts';
import type { AppDeps } from '../../server/app.ts';

/** OpenAI's list of models: the one that is served, once for each of its names. */
export function modelRoutes(deps: AppDeps): Hono {
  const app = new Hono();

  app.get('/v1/models', (c) => {
    const model = deps.model();
    const data = model === undefined ? [] : namesOf(model, deps).map((name) => modelObject(name, model));
    return c.json({ object: 'list', data });
  });

  // A name may have slashes in it, as those of hubs have, and some clients leave them as they are.
  app.get('/v1/models/:name{.+}', (c) => {
    const model = deps.model();
    const name = c.req.param('name');
    if (model === undefined || !namesOf(model, deps).includes(name)) throw modelNotFound(name, model, deps);
    return c.json(modelObject(name, model));
  });

  return app;
}

/** 404 unless the request asks for the model that is served. */
export function requireModelName(name: string, model: Model, deps: AppDeps): void {
  if (!namesOf(model, deps).includes(name)) throw modelNotFound(name, model, deps);
}

/** What clients call it: as its operator says, or as its file is called. */
function namesOf(model: Model, { modelNames = [] }: AppDeps): readonly string[] {
  return modelNames.length === 0 ? [model.id] : modelNames;
}

function modelNotFound(name: string, model: Model | undefined, deps: AppDeps): ApiError {
  const served =
    model === undefined
      ? 'no model is loaded'
      : `this server serves ${namesOf(model, deps).map(quoted).join(' and ')}`;
  const message = `The model ${quoted(shown(name))} is not here; ${served}.`;
  return new ApiError({ status: 404, code: 'model_not_found', message, param: 'model' });
}

function modelObject(name: string, model: Model): object {
  return { id: name, object: 'model', created: model.created, owned_by: 'runnel' };
}

function quoted(name: string): string {
  return JSON.stringify(name);
}
