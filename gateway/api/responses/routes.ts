import type { Context, Handler } from 'hono';
import * as z from 'zod';
import { answer } from '../../calls/answer.ts';
import { idempotencyOf } from '../../calls/idempotency.ts';
import {
  answerStage,
  answerTwin,
  type OpenedAnswer,
  openAnswer,
  streamKept,
} from '../../calls/kept-answer.ts';
import { ApiError, shown, unsupported } from '../../errors/api-error.ts';
import type { DurableJob } from '../../jobs/job.ts';
import { memberOf } from '../../json/json-values.ts';
import { cancelled } from '../../runner/runner.ts';
import { callersOf } from '../../server/guard/caller.ts';
import { tellIgnored } from '../../server/request-log.ts';
import { json, jsonOrEvents, type Operation, type RouteDeps } from '../../server/route-group.ts';
import { parseJson, readJson } from '../json.ts';
import { get, missing, post } from '../route.ts';
import {
  earlierItems,
  findResponse,
  itemListSchema,
  listing,
  requireKnownQuery,
  withReferenced,
} from './history.ts';
import { responseEventSchemas, responseSchema } from './response.ts';
import { RESPONSES_PATH, responses, responsesAfter } from './responses.ts';

/** The routes of OpenAI's responses, of which the journal keeps some. */

const RESPONSE = jsonOrEvents('A response, or events of which the last one has it.', responseSchema, {
  named: responseEventSchemas,
});

const deletedSchema = z
  .object({ id: z.string(), object: z.literal('response'), deleted: z.literal(true) })
  .meta({ title: 'DeletedResponse' });

export const responseOperations: readonly Operation[] = [
  post(
    RESPONSES_PATH,
    'The answer to a text or a conversation, by OpenAI’s newer API',
    answering,
    responses.body.meta({ required: ['model', 'input'] }),
    RESPONSE,
  ),
  get('/v1/responses/{id}', 'A response that is kept, as it is now, or its events', reading, RESPONSE, {
    query: {
      stream: 'true: its events, those there are and those to come.',
      starting_after: 'The sequence_number of the last event that the client has; left out: all of them.',
    },
  }),
  {
    method: 'post',
    path: '/v1/responses/{id}/cancel',
    summary: 'Ends a response that was begun in the background',
    handler: cancelling,
    answers: { 200: json('The response, as it ended.', responseSchema) },
  },
  {
    method: 'delete',
    path: '/v1/responses/{id}',
    summary: 'Forgets a response that is kept, and ends it if it was begun in the background',
    handler: deleting,
    answers: { 200: json('id, object and deleted.', deletedSchema) },
  },
  get(
    '/v1/responses/{id}/input_items',
    'What a response that is kept answers: the items of its input, and those of the conversation that it continues',
    listing(find),
    json('The items, the last one first.', itemListSchema),
    {
      query: {
        limit: 'The most items: 1 to 100, 20 by default.',
        order: '"asc": the first item first; "desc" by default.',
        after: 'The id of the last item that the client has.',
      },
    },
  ),
  missing('post', '/v1/responses/compact', 'Conversations are not compacted here.'),
  missing(
    'post',
    '/v1/responses/input_tokens',
    'Tokens of an input are not counted here: POST /v1/messages/count_tokens counts those of a conversation.',
  ),
];

function answering(deps: RouteDeps): Handler {
  return async (c) => {
    const sent = await readJson(c);
    const again = await answerAgain(c, deps, sent);
    if (again !== undefined) return again;
    const meant = await withReferenced(c, deps, sent);
    const parsed = responsesAfter(await earlierItems(c, deps, meant)).parse(meant, sent);
    tellIgnored(c, deps.log, parsed.ignored);
    return answer(c, deps, parsed, meant, sent);
  };
}

/** The answer to a request whose key has begun a job, also if what it continues is gone; undefined: its key has begun none. */
async function answerAgain(c: Context, deps: RouteDeps, sent: unknown): Promise<Response | undefined> {
  const isKept = memberOf(sent, 'background') === true || memberOf(sent, 'durable') === true;
  if (!isKept || !deps.jobs.isKeeping) return undefined;
  const idempotency = idempotencyOf(c, sent, 'durable');
  const twin = idempotency && (await deps.jobs.openTwin(idempotency.key));
  return twin && answerTwin(c, deps, responses.parse(parseJson(twin.record.body)), twin, idempotency);
}

function reading(deps: RouteDeps): Handler {
  return async (c) => {
    const opened = await open(c, deps);
    const { isStreamed, last } = parseQuery(c.req.query());
    return isStreamed ? streamKept(c, opened, last) : answerStage(c, opened);
  };
}

function cancelling(deps: RouteDeps): Handler {
  return async (c) => {
    const opened = await open(c, deps);
    await deps.jobs.cancel(callersOf(c), opened.durable.record.id, cancelled());
    return answerStage(c, opened);
  };
}

function deleting(deps: RouteDeps): Handler {
  return async (c) => {
    const { id } = (await find(c, deps)).record;
    await deps.jobs.forget(callersOf(c), id, cancelled());
    return c.json({ id, object: 'response', deleted: true } satisfies z.infer<typeof deletedSchema>);
  };
}

async function open(c: Context, deps: RouteDeps): Promise<OpenedAnswer> {
  return openAnswer(deps, await find(c, deps), (body) => responses.parse(parseJson(body)));
}

/** Throws a 501 if the server keeps no journal, a 404 if there is no such response. */
async function find(c: Context, deps: RouteDeps): Promise<DurableJob> {
  if (!deps.jobs.isKeeping) {
    const message =
      'Responses are not stored here, since the server keeps no journal (--journal-dir off, or its log says why): POST /v1/responses answers with all of one, and the next request sends it back in input.';
    throw new ApiError({ status: 501, code: 'not_supported', message });
  }
  const id = c.req.param('id') ?? '';
  const durable = await findResponse(c, deps, id);
  if (durable !== undefined) return durable;
  const message = `There is no response ${JSON.stringify(shown(id))} here: it was not stored ("store": false, a failure, or a client that left), was deleted, belongs to another key, or its retention time is over.`;
  throw new ApiError({ status: 404, code: 'response_not_found', message, param: 'id' });
}

const QUERY = ['stream', 'starting_after', 'include_obfuscation'];

/** last: the number of the last event that the client has, or -1. Throws a 400 for a parameter that cannot be obeyed. */
function parseQuery(query: Readonly<Record<string, string>>): { isStreamed: boolean; last: number } {
  const refuse = (name: string, message: string): ApiError => unsupported(name, `${name} ${message}`);
  requireKnownQuery(query, QUERY);
  const { stream = 'false', starting_after: after, include_obfuscation: obfuscation = 'false' } = query;
  if (stream !== 'true' && stream !== 'false') throw refuse('stream', 'must be true or false');
  if (obfuscation !== 'false') throw refuse('include_obfuscation', 'is not supported; leave it out');
  const isStreamed = stream === 'true';
  if (after === undefined) return { isStreamed, last: -1 };
  if (!/^\d{1,15}$/.test(after)) throw refuse('starting_after', 'must be the sequence_number of an event');
  if (!isStreamed) throw refuse('starting_after', 'needs stream to be true');
  return { isStreamed, last: Number(after) };
}
