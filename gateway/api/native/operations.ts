import * as z from 'zod';
import { json, type Operation, SSE_TYPE } from '../../server/route-group.ts';
import { MSGPACK_TYPE } from '../msgpack.ts';
import {
  cancelledSchema,
  detokenizedSchema,
  executeEventSchemas,
  promptSchema,
  tokenizedSchema,
} from './answers.ts';
import { applyTemplate, applyTemplateFields } from './apply-template.ts';
import { cancelling, cancelSchema, executing } from './execute.ts';
import { DEADLINE_HEADER, executeFields } from './execute-request.ts';
import { detokenize, detokenizeSchema, tokenize, tokenizeSchema } from './tokenize.ts';

const executeBody = z
  .strictObject(executeFields)
  .meta({ oneOf: [{ required: ['prompt'] }, { required: ['prompt_ids'] }] });

const EVENTS = { events: { named: executeEventSchemas } };

export const nativeOperations: readonly Operation[] = [
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
