import * as z from 'zod';
import { shouldRetry } from '../../errors/api-error.ts';
import { type Events, json, jsonOrEvents, type Operation } from '../../server/operation.ts';
import type { RouteGroup } from '../../server/route-group.ts';
import { callRoute } from '../call-route.ts';
import { missingRoutes } from '../missing-routes.ts';
import { requestId } from '../request-id.ts';
import { keptResponseRoutes } from '../responses/kept-responses.ts';
import { MISSING, responseOperations } from '../responses/operations.ts';
import { parseResponses, RESPONSES_PATH } from '../responses/responses.ts';
import {
  chatChunkSchema,
  chatCompletionSchema,
  completionChunkSchema,
  completionSchema,
  embeddingsSchema,
  modelSchema,
  modelsSchema,
} from './answers.ts';
import { chatFields, parseChat } from './chat-request.ts';
import { completionFields, parseCompletions } from './completion-request.ts';
import { embeddingFields, embeddingRoutes } from './embeddings.ts';
import { openAiErrorBody, openAiErrorSchema } from './errors.ts';
import { modelRoutes } from './models.ts';

/** Events of a stream. Each is a chunk or an error. */
const chunks = (chunk: z.ZodType): Events => ({
  unnamed: z.union([chunk, openAiErrorSchema]),
  last: '[DONE]',
});

const operations: readonly Operation[] = [
  {
    method: 'post',
    path: '/v1/chat/completions',
    summary: 'The next message of a conversation',
    body: z.strictObject(chatFields),
    answers: {
      200: jsonOrEvents(
        'A chat.completion, or chunks and [DONE].',
        chatCompletionSchema,
        chunks(chatChunkSchema),
      ),
    },
  },
  {
    method: 'post',
    path: '/v1/completions',
    summary: 'The continuation of prompts',
    body: z.strictObject(completionFields).meta({ required: ['model', 'prompt'] }),
    answers: {
      200: jsonOrEvents(
        'A text_completion, or chunks and [DONE].',
        completionSchema,
        chunks(completionChunkSchema),
      ),
    },
  },
  {
    method: 'post',
    path: '/v1/embeddings',
    summary: 'Vectors of texts',
    body: z.strictObject(embeddingFields),
    answers: { 200: json('A list of embeddings.', embeddingsSchema) },
  },
  {
    method: 'get',
    path: '/v1/models',
    summary: 'The models that are served',
    answers: { 200: json('A list of models.', modelsSchema) },
  },
  {
    method: 'get',
    path: '/v1/models/{name}',
    summary: 'One model',
    answers: { 200: json('A model.', modelSchema) },
  },
];

/** OpenAI's API. */
export const openAiGroup: RouteGroup = {
  name: 'openai',
  paths: ['/v1/*'],
  access: 'key',
  generating: ['/v1/chat/completions', '/v1/completions', '/v1/embeddings', '/v1/responses'],
  routes: [
    callRoute('/v1/chat/completions', parseChat),
    callRoute('/v1/completions', parseCompletions),
    embeddingRoutes,
    callRoute(RESPONSES_PATH, parseResponses),
    keptResponseRoutes,
    () => missingRoutes(MISSING),
    modelRoutes,
  ],
  begin: requestId,
  operations: [...operations, ...responseOperations],
  errorSchema: openAiErrorSchema,
  errorAnswer: (c, error) => {
    c.header('x-should-retry', String(shouldRetry(error)));
    return { body: openAiErrorBody(error) };
  },
};
