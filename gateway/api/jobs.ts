import type { Context, Handler } from 'hono';
import * as z from 'zod';
import type { ParsedCall } from '../calls/call.ts';
import { LAST_EVENT_HEADER, lastEventIdOf, openAnswer, streamKept } from '../calls/kept-answer.ts';
import { ApiError, shown } from '../errors/api-error.ts';
import type { DurableJob, JobState } from '../jobs/job.ts';
import { cancelled } from '../runner/runner.ts';
import { callersOf } from '../server/guard/caller.ts';
import { json, LINES_TYPE, type Operation, type RouteDeps, SSE_TYPE } from '../server/route-group.ts';
import { toApiError } from '../server/to-api-error.ts';
import { messageEventSchemas } from './anthropic/message.ts';
import { messages } from './anthropic/request.ts';
import { parseJson } from './json.ts';
import { MSGPACK_TYPE } from './msgpack.ts';
import { executeEventSchemas } from './native/events.ts';
import { parseExecute } from './native/execute.ts';
import { parseGenerate, parseChat as parseOllamaChat } from './ollama/requests.ts';
import { chat } from './openai/chat-request.ts';
import { completions } from './openai/completion-request.ts';
import { responseEventSchemas } from './responses/response.ts';
import { RESPONSES_PATH, responses } from './responses/responses.ts';
import { get } from './route.ts';

/** Durable jobs of all APIs: their states, their events in the API that they were begun by, and their end. */

/** The routes whose jobs are kept, and how their bodies are read. c: the request for the events. */
const PARSERS: Readonly<
  Record<string, (body: unknown, c: Context) => Pick<ParsedCall, 'call' | 'encoding'>>
> = {
  '/execute': parseExecute,
  '/v1/chat/completions': chat.parse,
  '/v1/completions': completions.parse,
  [RESPONSES_PATH]: responses.parse,
  '/v1/messages': messages.parse,
  '/api/chat': parseOllamaChat,
  '/api/generate': parseGenerate,
};

export const keepingRoutes: readonly string[] = Object.keys(PARSERS);

const jobSchema = z
  .object({
    id: z.string(),
    object: z.literal('job'),
    status: z.enum(['waiting', 'running', 'parked', 'ended']),
    route: z.string(),
    model: z.string(),
    created_at: z.string(),
    ended_at: z.string().nullable(),
    tokens_out: z.int(),
    error: z.object({ code: z.string(), message: z.string() }).nullable(),
  })
  .meta({ title: 'Job' });

const deletedSchema = z
  .object({ id: z.string(), object: z.literal('job'), deleted: z.literal(true) })
  .meta({ title: 'DeletedJob' });

/** how: what is done with the job before it is described. */
function describing(how: 'open' | 'park' | 'resume'): (deps: RouteDeps) => Handler {
  return (deps) => async (c) => c.json(described(await open(c, deps, how)));
}

function reading(deps: RouteDeps): Handler {
  return async (c) => {
    const last = lastEventIdOf(c);
    const durable = await open(c, deps);
    const parse = PARSERS[durable.record.route];
    if (parse === undefined) throw new Error(`No jobs come by ${durable.record.route}.`);
    return streamKept(c, await openAnswer(deps, durable, (body) => parse(parseJson(body), c)), last);
  };
}

function deleting(deps: RouteDeps): Handler {
  return async (c) => {
    const id = c.req.param('job_id') ?? '';
    if (!(await deps.jobs.forget(callersOf(c), id, cancelled()))) throw notFound(id);
    return c.json({ id, object: 'job', deleted: true } satisfies z.infer<typeof deletedSchema>);
  };
}

async function open(
  c: Context,
  { jobs }: RouteDeps,
  how: 'open' | 'park' | 'resume' = 'open',
): Promise<DurableJob> {
  const id = c.req.param('job_id') ?? '';
  const durable = await jobs[how](callersOf(c), id);
  if (durable === undefined) throw notFound(id);
  return durable;
}

function notFound(id: string): ApiError {
  const message = `There is no durable job ${JSON.stringify(shown(id))} here: it was not begun with "durable": true by this client, or its retention time is over.`;
  return new ApiError({ status: 404, code: 'job_not_found', message, param: 'job_id' });
}

function isShown(state: JobState): state is 'running' | 'parked' {
  return state === 'running' || state === 'parked';
}

function described({ job, record, log, endedMs }: DurableJob): z.infer<typeof jobSchema> {
  const { id, route, modelId, createdMs } = record;
  const { end } = log.content;
  const failure = end?.kind === 'error' ? toApiError(end.error) : undefined;
  return {
    id,
    object: 'job',
    status: endedMs !== undefined ? 'ended' : isShown(job.state) ? job.state : 'waiting',
    route,
    model: modelId,
    created_at: new Date(createdMs).toISOString(),
    ended_at: endedMs === undefined ? null : new Date(endedMs).toISOString(),
    tokens_out: log.length,
    error: failure === undefined ? null : { code: failure.code.toUpperCase(), message: failure.message },
  };
}

/** Chunks, lines and errors of any API: its own route describes them. */
const ANY = z.looseObject({});

const NAMED = { ...executeEventSchemas, ...messageEventSchemas, ...responseEventSchemas, error: ANY };

const EXECUTE = { events: { named: executeEventSchemas } };

const AFTER = {
  headers: {
    [LAST_EVENT_HEADER]: 'The id of the last event that the client has; left out: all of them.',
  },
};

export const jobOperations: readonly Operation[] = [
  get(
    '/jobs/{job_id}/events',
    'The events of a durable job, from the first one or after the last one that the client has',
    reading,
    {
      description: 'Past and future events, as the route streams them that began the job.',
      content: {
        [SSE_TYPE]: { events: { named: NAMED, unnamed: ANY, last: '[DONE]' } },
        [MSGPACK_TYPE]: EXECUTE,
        [LINES_TYPE]: { lines: ANY },
      },
    },
    AFTER,
  ),
  get(
    '/execute/{job_id}/events',
    'The same, for a job of /execute',
    reading,
    {
      description: 'Past and future events of the job.',
      content: { [SSE_TYPE]: EXECUTE, [MSGPACK_TYPE]: EXECUTE },
    },
    AFTER,
  ),
  get(
    '/jobs/{job_id}',
    'A durable job: whether it runs, and how it ended',
    describing('open'),
    json('The job.', jobSchema),
  ),
  {
    method: 'post',
    path: '/jobs/{job_id}/park',
    handler: describing('park'),
    summary: 'Has a durable job wait until it is resumed: a runner holds nothing of it meanwhile',
    answers: { 200: json('The job, whose tokens are on the disk.', jobSchema) },
  },
  {
    method: 'post',
    path: '/jobs/{job_id}/resume',
    handler: describing('resume'),
    summary: 'Has a parked job go on with the next token',
    answers: { 200: json('The job.', jobSchema) },
  },
  {
    method: 'delete',
    path: '/jobs/{job_id}',
    handler: deleting,
    summary: 'Ends a durable job and forgets it',
    answers: { 200: json('id, object and deleted.', deletedSchema) },
  },
];
