import { type Context, Hono } from 'hono';
import { answerStage, type OpenedAnswer, openAnswer, streamKept } from '../../calls/kept-answer.ts';
import { ApiError } from '../../errors/api-error.ts';
import { shown } from '../../errors/shown.ts';
import type { DurableJob } from '../../jobs/job.ts';
import { cancelled } from '../../runner/runner.ts';
import { callersOf } from '../../server/guard/caller.ts';
import type { RouteDeps } from '../../server/route-group.ts';
import { parseJson } from '../json.ts';
import type { DeletedResponse } from './answers.ts';
import { parseResponses, RESPONSES_PATH } from './responses.ts';

/** The routes that read, cancel and delete a response that the journal keeps. */
export function keptResponseRoutes(deps: RouteDeps): Hono {
  const app = new Hono();

  app.get('/v1/responses/:id', async (c) => {
    const opened = await open(c, deps);
    const { isStreamed, last } = parseQuery(c.req.query());
    return isStreamed ? streamKept(c, opened, last) : answerStage(c, opened);
  });

  app.post('/v1/responses/:id/cancel', async (c) => {
    const opened = await open(c, deps);
    await deps.jobs.cancel(callersOf(c), c.req.param('id'), cancelled());
    return answerStage(c, opened);
  });

  app.delete('/v1/responses/:id', async (c) => {
    const { id } = (await find(c, deps)).record;
    await deps.jobs.forget(callersOf(c), id, cancelled());
    return c.json({ id, object: 'response', deleted: true } satisfies DeletedResponse);
  });

  return app;
}

async function open(c: Context, deps: RouteDeps): Promise<OpenedAnswer> {
  return openAnswer(deps, await find(c, deps), (body) => parseResponses(parseJson(body)));
}

/** Throws a 501 if the server keeps no journal, a 404 if there is no such response. */
async function find(c: Context, { jobs }: RouteDeps): Promise<DurableJob> {
  if (!jobs.isKeeping) {
    const message =
      'Responses are not stored here, since the server keeps no journal (--journal-dir off, or its log says why): POST /v1/responses answers with all of one, and the next request sends it back in input.';
    throw new ApiError({ status: 501, code: 'not_supported', message });
  }
  const id = c.req.param('id') ?? '';
  const durable = await jobs.open(callersOf(c), id);
  if (durable?.record.route === RESPONSES_PATH) return durable;
  const message = `There is no response ${JSON.stringify(shown(id))} here: it was not begun with "background": true or "durable": true by this client, or its retention time is over. Others are not stored.`;
  throw new ApiError({ status: 404, code: 'response_not_found', message, param: 'id' });
}

const QUERY = ['stream', 'starting_after', 'include_obfuscation'];

/** last: the number of the last event that the client has, or -1. Throws a 400 for a parameter that cannot be obeyed. */
function parseQuery(query: Readonly<Record<string, string>>): { isStreamed: boolean; last: number } {
  const refuse = (name: string, message: string): ApiError =>
    new ApiError({ status: 400, code: 'unsupported_parameter', message: `${name} ${message}`, param: name });
  for (const name of Object.keys(query))
    if (!QUERY.includes(name)) throw refuse(shown(name), 'is not supported; leave it out');
  const { stream = 'false', starting_after: after, include_obfuscation: obfuscation = 'false' } = query;
  if (stream !== 'true' && stream !== 'false') throw refuse('stream', 'must be true or false');
  if (obfuscation !== 'false') throw refuse('include_obfuscation', 'is not supported; leave it out');
  const isStreamed = stream === 'true';
  if (after === undefined) return { isStreamed, last: -1 };
  if (!/^\d{1,15}$/.test(after)) throw refuse('starting_after', 'must be the sequence_number of an event');
  if (!isStreamed) throw refuse('starting_after', 'needs stream to be true');
  return { isStreamed, last: Number(after) };
}
