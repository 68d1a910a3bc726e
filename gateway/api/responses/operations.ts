import * as z from 'zod';
import { json, jsonOrEvents, type Operation } from '../../server/operation.ts';
import type { MissingRoute } from '../missing-routes.ts';
import { deletedSchema, responseEventSchemas, responseSchema } from './answers.ts';
import { responsesFields } from './request.ts';

const NOT_STORED =
  'Inputs of responses are not stored here: the next request sends what was said in its own input.';

/** Routes of OpenAI's responses API that Runnel does not have, and what to do instead. */
export const MISSING: readonly MissingRoute[] = [
  ['GET', '/v1/responses/:id/input_items', NOT_STORED],
  ['POST', '/v1/responses/compact', 'Conversations are not compacted here.'],
  [
    'POST',
    '/v1/responses/input_tokens',
    'Tokens of an input are not counted here: POST /v1/messages/count_tokens counts those of a conversation.',
  ],
];

const METHODS = { GET: 'get', POST: 'post', DELETE: 'delete' } as const;

const RESPONSE = jsonOrEvents('A response, or events of which the last one has it.', responseSchema, {
  named: responseEventSchemas,
});

export const responseOperations: readonly Operation[] = [
  {
    method: 'post',
    path: '/v1/responses',
    summary: 'The answer to a text or a conversation, by OpenAI’s newer API',
    body: z.strictObject(responsesFields).meta({ required: ['model', 'input'] }),
    answers: { 200: RESPONSE },
  },
  {
    method: 'get',
    path: '/v1/responses/{id}',
    summary: 'A response that was begun in the background, as it is now, or its events',
    query: {
      stream: 'true: its events, those there are and those to come.',
      starting_after: 'The sequence_number of the last event that the client has; left out: all of them.',
    },
    answers: { 200: RESPONSE },
  },
  {
    method: 'post',
    path: '/v1/responses/{id}/cancel',
    summary: 'Ends a response that was begun in the background',
    answers: { 200: json('The response, as it ended.', responseSchema) },
  },
  {
    method: 'delete',
    path: '/v1/responses/{id}',
    summary: 'Ends a response that was begun in the background and forgets it',
    answers: { 200: json('id, object and deleted.', deletedSchema) },
  },
  ...MISSING.map(([method, path, sentence]): Operation => {
    const written = path.replace(':id', '{id}');
    return { method: METHODS[method], path: written, summary: `501: ${sentence}`, answers: {} };
  }),
];
