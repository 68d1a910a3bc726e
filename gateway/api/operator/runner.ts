import { type Context, Hono } from 'hono';
import * as z from 'zod';
import { findModel } from '../../calls/use-model.ts';
import { ApiError } from '../../errors/api-error.ts';
import { UsageError } from '../../errors/exit-code.ts';
import { ModelFileError } from '../../errors/model-file-error.ts';
import { JSON_TYPE } from '../../json/json-text.ts';
import type { RouteDeps } from '../../server/route-group.ts';
import { jsonOf } from '../../telemetry/crash-reports.ts';
import * as fields from '../fields.ts';
import { readJson } from '../json.ts';

export const killSchema = z.strictObject({ pid: z.int() });

export const restartSchema = z.strictObject({
  wait: z.boolean().default(false),
  model: z.string().optional(),
});

/** Reads the body; a request without one gets the defaults. */
async function bodyOf(c: Context): Promise<z.infer<typeof restartSchema>> {
  if (c.req.header('content-type') === undefined) return restartSchema.parse({});
  return fields.parseBody(restartSchema, await readJson(c));
}

function restart(deps: RouteDeps, model: string | undefined): Promise<string | undefined> {
  if (model !== undefined) findModel(model, deps);
  try {
    return deps.restartRunner(model);
  } catch (error) {
    if (!(error instanceof UsageError || error instanceof ModelFileError)) throw error;
    throw new ApiError({ status: 409, code: 'settings_unusable', message: error.message, cause: error });
  }
}

/** Routes for operators: the crash reports of runners, and their restart. */
export function runnerRoutes(deps: RouteDeps): Hono {
  const app = new Hono();

  // 64-bit seeds keep all their digits.
  app.get('/runner/crashes', (c) =>
    c.body(jsonOf({ crashes: deps.crashes() }), 200, { 'content-type': JSON_TYPE }),
  );

  app.post('/runner/restart', async (c) => {
    const { wait, model } = await bodyOf(c);
    const restarted = restart(deps, model);
    if (!wait) return c.json({ status: 'restarting' }, 202);
    const failure = await restarted;
    if (failure === undefined) return c.json({ status: 'restarted' });
    const message = `The new settings could not be applied; the previous ones stay in effect: ${failure}`;
    throw new ApiError({ status: 500, code: 'restart_failed', message });
  });

  const killRunner = deps.playground?.killRunner;
  if (killRunner !== undefined) {
    app.post('/runner/kill', async (c) => {
      const { pid } = fields.parseBody(killSchema, await readJson(c));
      if (killRunner(pid)) return c.json({ status: 'killed' });
      const message = `No runner of this server has the process id ${pid}.`;
      throw new ApiError({ status: 404, code: 'not_found', message });
    });
  }

  return app;
}
