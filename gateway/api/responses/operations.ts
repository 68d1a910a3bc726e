import * as z from 'zod';
import { jsonOrEvents, type Operation } from '../../server/operation.ts';
import { MISSING } from './missing.ts';
import { responsesFields } from './request.ts';

const METHODS = { GET: 'get', POST: 'post', DELETE: 'delete' } as const;

export const responseOperations: readonly Operation[] = [
  {
    method: 'post',
    path: '/v1/responses',
    summary: 'The answer to a text or a conversation, by OpenAI’s newer API',
    body: z.strictObject(responsesFields).meta({ required: ['model', 'input'] }),
    answers: { 200: jsonOrEvents('A response, or events of which the last one has it.') },
  },
  ...MISSING.map(([method, path, sentence]): Operation => {
    const written = path.replace(':id', '{id}');
    return { method: METHODS[method], path: written, summary: `501: ${sentence}`, answers: {} };
  }),
];
