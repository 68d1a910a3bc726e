import type { Handler } from 'hono';
import * as z from 'zod';
import { answer } from '../../calls/answer.ts';
import { cancelled } from '../../runner/runner.ts';
import { callersOf } from '../../server/guard/caller.ts';
import { json, type Operation, type RouteDeps, type RouteGroup, SSE_TYPE } from '../../server/route-group.ts';
import { version } from '../../system/version.ts';
import { parseBody } from '../body.ts';
import { errorOfUnknownPath, nativeErrorBody } from '../error-bodies.ts';
import { nativeErrorSchema } from '../error-schemas.ts';
import * as fields from '../fields.ts';
import { jobOperations } from '../jobs.ts';
import { MSGPACK_TYPE } from '../msgpack.ts';
import { get, missing, post } from '../route.ts';
import { executeEventSchemas } from './events.ts';
import { DEADLINE_HEADER, executeBody, executeLog, parseExecute, readBody } from './execute.ts';
import {
  applyTemplate,
  applyTemplateBody,
  detokenize,
  detokenizeBody,
  tokenize,
  tokenizeBody,
} from './tokenize.ts';

const EVENTS = { events: { named: executeEventSchemas } };

const cancelBody = z.strictObject({ job_id: fields.nonEmpty('job_id') });
const cancelledSchema = z.object({ job_id: z.string() }).meta({ title: 'Cancelled' });

const piece = z.union([z.string(), z.array(z.int())]);
const tokenizedSchema = z
  .object({
    count: z.int().optional(),
    max_model_len: z.int().nullish(),
    tokens: z.union([z.array(z.int()), z.array(z.object({ id: z.int(), piece }))]),
  })
  .meta({ title: 'Tokens' });
const detokenizedSchema = z.object({ content: z.string() }).meta({ title: 'Detokenized' });
const promptSchema = z.object({ prompt: z.string() }).meta({ title: 'Prompt' });

const operations: readonly Operation[] = [
  post(
    '/execute',
    'A prompt in, its continuation as events',
    executing,
    executeBody.meta({ oneOf: [{ required: ['prompt'] }, { required: ['prompt_ids'] }] }),
    {
      description: 'started, any number of token and metrics, then one of end and error.',
      content: { [SSE_TYPE]: EVENTS, [MSGPACK_TYPE]: EVENTS },
    },
    {
      bodyTypes: [MSGPACK_TYPE],
      headers: {
        [DEADLINE_HEADER]:
          'The time after which the answer is not wanted: Unix milliseconds, or ISO 8601 with a zone.',
      },
    },
  ),
  {
    method: 'post',
    path: '/cancel',
    handler: cancelling,
    summary: 'Ends a job',
    body: cancelBody,
    bodyTypes: [MSGPACK_TYPE],
    answers: {
      202: json(
        'Idempotent: always 202, whether the job is running, has ended or never existed.',
        cancelledSchema,
      ),
    },
  },
  post(
    '/tokenize',
    'Text to the ids of its tokens',
    tokenize,
    tokenizeBody,
    json(
      'tokens: ids, or with_pieces objects of id and piece. For a prompt, count and max_model_len too.',
      tokenizedSchema,
    ),
  ),
  post(
    '/detokenize',
    'Ids of tokens to text',
    detokenize,
    detokenizeBody.meta({ required: ['tokens'] }),
    json('content: the text.', detokenizedSchema),
  ),
  post(
    '/apply-template',
    'A conversation as the prompt that the model reads',
    applyTemplate,
    applyTemplateBody,
    json('prompt: the text.', promptSchema),
  ),
  get(
    '/version',
    'The server’s version, as vLLM says it',
    () => (c) => c.json({ version: version() }),
    json('version.', z.object({ version: z.string() }).meta({ title: 'Version' })),
  ),
  {
    method: 'get',
    path: '/openapi.json',
    summary: 'This document',
    answers: { 200: json('OpenAPI 3.1.', z.looseObject({ openapi: z.string() })) },
  },
  missing('post', '/completion', 'A prompt is continued by POST /v1/completions, or by POST /execute.'),
  missing('post', '/infill', 'A gap is filled by POST /v1/completions, with the field suffix.'),
  missing('get', '/props', 'GET /health describes the server, and GET /v1/models its models.'),
  missing('get', '/tokenizer_info', 'The tokenizer is that of the model’s files; POST /tokenize uses it.'),
];

/** A prompt in, its continuation as events. */
function executing(deps: RouteDeps): Handler {
  return async (c) => {
    const body = await readBody(c);
    const { request, ...parsed } = parseExecute(body, c);
    return answer(c, deps, { ...parsed, log: executeLog(c, deps, request) }, body);
  };
}

/** The end of any job that has an id. */
function cancelling(deps: RouteDeps): Handler {
  return async (c) => {
    const { job_id } = parseBody(cancelBody, await readBody(c));
    await deps.jobs.cancel(callersOf(c), job_id, cancelled());
    return c.json({ job_id }, 202);
  };
}

/** The native API, and every path that belongs to no other group. */
export const nativeGroup: RouteGroup = {
  name: 'native',
  paths: ['/*'],
  access: 'key',
  generating: ['/execute'],
  operations: [...operations, ...jobOperations],
  errorSchema: nativeErrorSchema,
  errorAnswer: (_, error) => {
    return { body: error.code === 'not_found' ? errorOfUnknownPath(error) : nativeErrorBody(error) };
  },
  hint: "The routes of OpenAI's API are under /v1: a client's base URL ends with it.",
};
