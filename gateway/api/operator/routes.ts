import type { Context, Handler } from 'hono';
import * as z from 'zod';
import { findModel } from '../../calls/use-model.ts';
import { ApiError } from '../../errors/api-error.ts';
import { UsageError } from '../../errors/exit-code.ts';
import { ModelFileError } from '../../errors/model-file-error.ts';
import { JSON_TYPE, jsonText } from '../../json/json-text.ts';
import { json, type RouteDeps, type RouteGroup } from '../../server/route-group.ts';
import { parseBody } from '../body.ts';
import { readJson } from '../json.ts';
import { nativeErrorBody, nativeErrorSchema } from '../native/answers.ts';
import {
  crashesSchema,
  healthSchema,
  killedSchema,
  readySchema,
  restartedSchema,
  restartingSchema,
} from './answers.ts';
import { health, ready } from './health.ts';

const operator: Pick<RouteGroup, 'name' | 'generating' | 'errorSchema' | 'errorAnswer'> = {
  name: 'operator',
  generating: [],
  errorSchema: nativeErrorSchema,
  errorAnswer: (_, error) => ({ body: nativeErrorBody(error) }),
};

/** Routes for probes, which have no key. */
export const probeGroup: RouteGroup = {
  ...operator,
  paths: ['/health', '/ready'],
  access: 'everybody',
  operations: [
    {
      method: 'get',
      path: '/health',
      summary: 'The worker’s health',
      handler: health,
      answers: { 200: json('Always, while the gateway runs.', healthSchema) },
    },
    {
      method: 'get',
      path: '/ready',
      summary: 'Whether the worker takes requests',
      handler: ready,
      answers: {
        200: json('The worker takes requests. Otherwise the answer is a 503 with the reason.', readySchema),
      },
    },
  ],
};

const killSchema = z.strictObject({ pid: z.int() });

const restartSchema = z.strictObject({
  wait: z.boolean().default(false),
  model: z.string().optional(),
});

/** Routes for operators: what they show is about other clients' requests, and what they do affects all clients. */
export const operatorGroup: RouteGroup = {
  ...operator,
  paths: ['/runner/*', '/metrics'],
  access: 'admin-key',
  operations: [
    {
      method: 'get',
      path: '/metrics',
      summary: 'Numbers for Prometheus',
      handler: metrics,
      answers: {
        200: { description: 'Prometheus’ text format.', content: { 'text/plain': { whole: z.string() } } },
      },
    },
    {
      method: 'get',
      path: '/runner/crashes',
      summary: 'The last runners that crashed or exited unexpectedly',
      handler: crashes,
      answers: { 200: json('crashes, the newest first.', crashesSchema) },
    },
    {
      method: 'post',
      path: '/runner/restart',
      summary: 'A new runner in place of the old one',
      handler: restarting,
      body: restartSchema,
      isBodyOptional: true,
      answers: {
        200: json('The new runner is ready (with wait).', restartedSchema),
        202: json('The restart has begun.', restartingSchema),
      },
    },
    {
      method: 'post',
      path: '/runner/kill',
      summary: 'Ends the process of a runner by SIGKILL; only with --playground dev',
      handler: killing,
      body: killSchema,
      answers: { 200: json('It was killed.', killedSchema) },
    },
  ],
};

function metrics(deps: RouteDeps): Handler {
  return async (c) => c.body(await deps.metrics.text(), 200, { 'content-type': deps.metrics.contentType });
}

/** 64-bit seeds keep all their digits. */
function crashes(deps: RouteDeps): Handler {
  return (c) => c.body(jsonText({ crashes: deps.crashes() }), 200, { 'content-type': JSON_TYPE });
}

function restarting(deps: RouteDeps): Handler {
  return async (c) => {
    const { wait, model } = await bodyOf(c);
    const restarted = restart(deps, model);
    if (!wait) return c.json({ status: 'restarting' }, 202);
    const failure = await restarted;
    if (failure === undefined) return c.json({ status: 'restarted' });
    const message = `The new settings could not be applied; the previous ones stay in effect: ${failure}`;
    throw new ApiError({ status: 500, code: 'restart_failed', message });
  };
}

/** Reads the body; a request without one gets the defaults. */
async function bodyOf(c: Context): Promise<z.infer<typeof restartSchema>> {
  if (c.req.header('content-type') === undefined) return restartSchema.parse({});
  return parseBody(restartSchema, await readJson(c));
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

function killing({ playground }: RouteDeps): Handler | undefined {
  const kill = playground?.killRunner;
  return (
    kill &&
    (async (c) => {
      const { pid } = parseBody(killSchema, await readJson(c));
      if (kill(pid)) return c.json({ status: 'killed' });
      const message = `No runner of this server has the process id ${pid}.`;
      throw new ApiError({ status: 404, code: 'not_found', message });
    })
  );
}
