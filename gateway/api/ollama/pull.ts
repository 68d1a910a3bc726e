import { Hono } from 'hono';
import * as z from 'zod';
import { ApiError } from '../../errors/api-error.ts';
import type { RouteDeps } from '../../server/route-group.ts';
import * as fields from '../fields.ts';
import { ANYTHING, inert } from '../inert.ts';
import { readJsonText } from '../json.ts';
import type { Pulled } from './answers.ts';
import { namedModel, nameFields, servedName } from './model-name.ts';

/**
 * POST /api/pull. Nothing is fetched: a client that pulls before it asks wants to know whether the model is there. The
 * stream has only its last line, because no progress line would be true.
 */

const pullFields = { ...nameFields, stream: z.boolean().default(true), ...inert({ insecure: ANYTHING }) };

export const pullSchema = z.strictObject(pullFields).transform((body, ctx) => ({
  name: namedModel(body, ctx),
  isStream: body.stream,
}));

export function pullRoutes(deps: RouteDeps): Hono {
  const app = new Hono();

  app.post('/api/pull', async (c) => {
    const { name, isStream } = fields.parseBody(pullSchema, await readJsonText(c));
    const { names } = deps.models;
    if (!names.includes(servedName(name, names))) throw notFound(name);
    const line = JSON.stringify({ status: 'success' } satisfies Pulled);
    if (isStream) return c.body(`${line}\n`, 200, { 'content-type': 'application/x-ndjson' });
    return c.body(line, 200, { 'content-type': 'application/json' });
  });

  return app;
}

function notFound(name: string): ApiError {
  return new ApiError({
    status: 404,
    code: 'model_not_found',
    param: 'model',
    message: `Model ${JSON.stringify(name)} not found; models are not downloaded over HTTP. Run "runnel pull NAME" on the server's machine, and serve it.`,
  });
}
