import type { Context, Handler } from 'hono';
import * as z from 'zod';
import { findModel } from '../../calls/use-model.ts';
import { ApiError } from '../../errors/api-error.ts';
import { UsageError } from '../../errors/exit-code.ts';
import { ModelFileError } from '../../errors/thrown.ts';
import { JSON_TYPE, jsonText } from '../../json/json-values.ts';
import type { ServedModel } from '../../models/model-registry.ts';
import { type Answer, json, type RouteDeps, type RouteGroup } from '../../server/route-group.ts';
import { crashReport } from '../../telemetry/crash-reports.ts';
import { parseBody } from '../body.ts';
import { nativeErrorBody } from '../error-bodies.ts';
import { nativeErrorSchema } from '../error-schemas.ts';
import { readJson } from '../json.ts';
import { get, post } from '../route.ts';
import { health, healthSchema, ready, readySchema } from './health.ts';

const crashesSchema = z.object({ crashes: z.array(crashReport) }).meta({ title: 'Crashes' });

const restartedSchema = z.object({ status: z.literal('restarted') }).meta({ title: 'Restarted' });
const restartingSchema = z.object({ status: z.literal('restarting') }).meta({ title: 'Restarting' });
const killedSchema = z.object({ status: z.literal('killed') }).meta({ title: 'Killed' });

const operator: Pick<RouteGroup, 'name' | 'generating' | 'errorSchema' | 'errorAnswer'> = {
  name: 'operator',
  generating: [],
  errorSchema: nativeErrorSchema,
  errorAnswer: (_, error) => ({ body: nativeErrorBody(error) }),
};

const inPrometheusFormat: Answer = {
  description: 'Prometheus’ text format.',
  content: { 'text/plain': { whole: z.string() } },
};

/** Routes for probes and balancers, which have no key. */
export const probeGroup: RouteGroup = {
  ...operator,
  paths: ['/health', '/ready', '/ping', '/metrics/load'],
  access: 'everybody',
  operations: [
    get('/health', 'The worker’s health', health, json('Always, while the gateway runs.', healthSchema)),
    get(
      '/ready',
      'Whether the worker takes requests',
      ready,
      json('The worker takes requests. Otherwise the answer is a 503 with the reason.', readySchema),
    ),
    get('/ping', 'The same, by vLLM’s name', ready, json('As /ready.', readySchema)),
    get('/metrics/load', 'The load, for balancers', load, inPrometheusFormat),
  ],
};

const killBody = z.strictObject({ pid: z.int() });

const modelBody = z.strictObject({ model: z.string().optional() });
const restartBody = z.strictObject({ wait: z.boolean().default(false), ...modelBody.shape });

const parkedSchema = z.object({ parked: z.int() }).meta({ title: 'Parked' });
const resumedSchema = z.object({ resumed: z.int() }).meta({ title: 'Resumed' });

/** Routes for operators: what they show is about other clients' requests, and what they do affects all clients. */
export const operatorGroup: RouteGroup = {
  ...operator,
  paths: ['/runner/*', '/metrics'],
  access: 'admin-key',
  operations: [
    get('/metrics', 'Numbers for Prometheus', metrics, inPrometheusFormat),
    get(
      '/runner/crashes',
      'The last runners that crashed or exited unexpectedly',
      crashes,
      json('crashes, the newest first.', crashesSchema),
    ),
    {
      method: 'post',
      path: '/runner/restart',
      summary: 'A new runner in place of the old one',
      handler: restarting,
      body: restartBody,
      isBodyOptional: true,
      answers: {
        200: json('The new runner is ready (with wait).', restartedSchema),
        202: json('The restart has begun.', restartingSchema),
      },
    },
    {
      method: 'post',
      path: '/runner/park',
      summary: 'Parks the durable jobs of a model, or all',
      handler: parking,
      body: modelBody,
      isBodyOptional: true,
      answers: { 200: json('How many there were; their tokens are on the disk.', parkedSchema) },
    },
    {
      method: 'post',
      path: '/runner/resume',
      summary: 'Has the parked jobs of a model, or all, go on',
      handler: resuming,
      body: modelBody,
      isBodyOptional: true,
      answers: { 200: json('How many there were.', resumedSchema) },
    },
    post(
      '/runner/kill',
      'Ends the process of a runner by SIGKILL; only with --playground dev',
      killing,
      killBody,
      json('It was killed.', killedSchema),
    ),
  ],
};

function metrics({ metrics }: RouteDeps): Handler {
  return async (c) => c.body(await metrics.text(), 200, { 'content-type': metrics.contentType });
}

function load({ metrics }: RouteDeps): Handler {
  return async (c) => c.body(await metrics.loadText(), 200, { 'content-type': metrics.contentType });
}

/** 64-bit seeds keep all their digits. */
function crashes(deps: RouteDeps): Handler {
  return (c) => c.body(jsonText({ crashes: deps.crashes() }), 200, { 'content-type': JSON_TYPE });
}

function restarting(deps: RouteDeps): Handler {
  return async (c) => {
    const { wait, model } = await bodyOf(restartBody, c);
    const restarted = restart(deps, model);
    if (!wait) return c.json({ status: 'restarting' }, 202);
    const failure = await restarted;
    if (failure === undefined) return c.json({ status: 'restarted' });
    const message = `The new settings could not be applied; the previous ones stay in effect: ${failure}`;
    throw new ApiError({ status: 500, code: 'restart_failed', message });
  };
}

/** Reads the body; a request without one gets the defaults. */
async function bodyOf<Schema extends z.ZodType>(schema: Schema, c: Context): Promise<z.infer<Schema>> {
  if (c.req.header('content-type') === undefined) return schema.parse({});
  return parseBody(schema, await readJson(c));
}

function parking(deps: RouteDeps): Handler {
  return async (c) => c.json({ parked: await deps.jobs.parkAll(await namedIn(c, deps)) });
}

function resuming(deps: RouteDeps): Handler {
  return async (c) => c.json({ resumed: await deps.jobs.resumeAll(await namedIn(c, deps)) });
}

/** The model that the body names. Throws a 404 if there is none of this name. */
async function namedIn(c: Context, deps: RouteDeps): Promise<ServedModel | undefined> {
  const { model } = await bodyOf(modelBody, c);
  return model === undefined ? undefined : findModel(model, deps);
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
      const { pid } = parseBody(killBody, await readJson(c));
      if (kill(pid)) return c.json({ status: 'killed' });
      const message = `No runner of this server has the process id ${pid}.`;
      throw new ApiError({ status: 404, code: 'not_found', message });
    })
  );
}
