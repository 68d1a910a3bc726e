import { Hono } from 'hono';
import { ApiError } from '../api/error.ts';
import { shown } from '../api/shown.ts';
import type { AppDeps } from '../app.ts';
import type { Model } from '../model/model.ts';

/** OpenAI's list of models: the one that is served. */
export function modelRoutes(deps: AppDeps): Hono {
  const app = new Hono();

  app.get('/v1/models', (c) => {
    const model = deps.model();
    return c.json({ object: 'list', data: model === undefined ? [] : [modelObject(model)] });
  });

  app.get('/v1/models/:id', (c) => {
    const model = deps.model();
    const id = c.req.param('id');
    if (model?.id !== id) throw modelNotFound(id, model);
    return c.json(modelObject(model));
  });

  return app;
}

/** 404 unless the request asks for the model that is served. */
export function requireModelId(id: string, model: Model): void {
  if (id !== model.id) throw modelNotFound(id, model);
}

function modelNotFound(id: string, model: Model | undefined): ApiError {
  const served = model === undefined ? 'no model is loaded' : `this server serves "${model.id}"`;
  const message = `The model ${JSON.stringify(shown(id))} is not here; ${served}.`;
  return new ApiError({ status: 404, code: 'model_not_found', message, param: 'model' });
}

function modelObject(model: Model): object {
  return { id: model.id, object: 'model', created: model.created, owned_by: 'runnel' };
}
