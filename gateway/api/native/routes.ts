import type { Handler } from 'hono';
import * as z from 'zod';
import { answer } from '../../calls/answer.ts';
import { cancelled } from '../../runner/runner.ts';
import { callersOf } from '../../server/guard/caller.ts';
import { json, type Operation, type RouteDeps, type RouteGroup, SSE_TYPE } from '../../server/route-group.ts';
import { parseBody } from '../body.ts';
import * as fields from '../fields.ts';
import { jobOperations } from '../jobs.ts';
import { MSGPACK_TYPE } from '../msgpack.ts';
import { errorOfUnknownPath } from '../outside-answers.ts';
import {
  cancelledSchema,
  detokenizedSchema,
  executeEventSchemas,
  nativeErrorBody,
  nativeErrorSchema,
  promptSchema,
  tokenizedSchema,
} from './answers.ts';
import { applyTemplate, applyTemplateFields } from './apply-template.ts';
import { executeLog } from './execute-log.ts';
import { DEADLINE_HEADER, executeFields, parseExecute, readBody } from './execute-request.ts';
import { detokenize, detokenizeSchema, tokenize, tokenizeSchema } from './tokenize.ts';

const executeBody = z
  .strictObject(executeFields)
  .meta({ oneOf: [{ required: ['prompt'] }, { required: ['prompt_ids'] }] });

const EVENTS = { events: { named: executeEventSchemas } };

const cancelSchema = z.strictObject({ job_id: fields.nonEmpty('job_id') });

const operations: readonly Operation[] = [
  {
    method: 'post',
    path: '/execute',
    handler: executing,
    summary: 'A prompt in, its continuation as events',
    body: executeBody,
    bodyTypes: [MSGPACK_TYPE],
    headers: {
      [DEADLINE_HEADER]:
        'The time after which the answer is not wanted: Unix milliseconds, or ISO 8601 with a zone.',
    },
    answers: {
      200: {
        description: 'started, any number of token and metrics, then one of end and error.',
        content: { [SSE_TYPE]: EVENTS, [MSGPACK_TYPE]: EVENTS },
      },
    },
  },
  {
    method: 'post',
    path: '/cancel',
    handler: cancelling,
    summary: 'Ends a job',
    body: cancelSchema,
    bodyTypes: [MSGPACK_TYPE],
    answers: {
      202: json(
        'Idempotent: always 202, whether the job is running, has ended or never existed.',
        cancelledSchema,
      ),
    },
  },
  {
    method: 'post',
    path: '/tokenize',
    handler: tokenize,
    summary: 'Text to the ids of its tokens',
    body: tokenizeSchema,
    answers: { 200: json('tokens: ids, or with_pieces objects of id and piece.', tokenizedSchema) },
  },
  {
    method: 'post',
    path: '/detokenize',
    handler: detokenize,
    summary: 'Ids of tokens to text',
    body: detokenizeSchema.meta({ required: ['tokens'] }),
    answers: { 200: json('content: the text.', detokenizedSchema) },
  },
  {
    method: 'post',
    path: '/apply-template',
    handler: applyTemplate,
    summary: 'A conversation as the prompt that the model reads',
    body: z.strictObject(applyTemplateFields),
    answers: { 200: json('prompt: the text.', promptSchema) },
  },
  {
    method: 'get',
    path: '/openapi.json',
    summary: 'This document',
    answers: { 200: json('OpenAPI 3.1.', z.looseObject({ openapi: z.string() })) },
  },
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
    const { job_id } = parseBody(cancelSchema, await readBody(c));
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
