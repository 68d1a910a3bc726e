import * as z from 'zod';
import { json, jsonOrEvents, type Operation } from '../../server/operation.ts';
import { deletedSchema, responseEventSchemas, responseSchema } from './answers.ts';
import { MISSING } from './missing.ts';
import { responsesFields } from './request.ts';

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
