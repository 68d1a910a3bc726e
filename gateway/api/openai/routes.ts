import type { Handler } from 'hono';
import * as z from 'zod';
import { findModel } from '../../calls/use-model.ts';
import { shouldRetry } from '../../errors/api-error.ts';
import type { ServedModel } from '../../models/model-registry.ts';
import {
  type Events,
  json,
  jsonOrEvents,
  type RouteDeps,
  type RouteGroup,
} from '../../server/route-group.ts';
import { responseOperations } from '../responses/routes.ts';
import { answering, requestId } from '../route.ts';
import {
  chatChunkSchema,
  chatCompletionSchema,
  completionChunkSchema,
  completionSchema,
  embeddingsSchema,
  type ModelList,
  type ModelObject,
  modelSchema,
  modelsSchema,
  openAiErrorBody,
  openAiErrorSchema,
} from './answers.ts';
import { chatFields, parseChat } from './chat-request.ts';
import { completionFields, parseCompletions } from './completion-request.ts';
import { embedding, embeddingFields } from './embeddings.ts';

/** Events of a stream. Each is a chunk or an error. */
const chunks = (chunk: z.ZodType): Events => ({
  unnamed: z.union([chunk, openAiErrorSchema]),
  last: '[DONE]',
});

/** OpenAI's API. */
export const openAiGroup: RouteGroup = {
  name: 'openai',
  paths: ['/v1/*'],
  access: 'key',
  generating: ['/v1/chat/completions', '/v1/completions', '/v1/embeddings', '/v1/responses'],
  begin: requestId(),
  operations: [
    {
      method: 'post',
      path: '/v1/chat/completions',
      summary: 'The next message of a conversation',
      handler: answering(parseChat),
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
      handler: answering(parseCompletions),
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
      handler: embedding,
      body: z.strictObject(embeddingFields),
      answers: { 200: json('A list of embeddings.', embeddingsSchema) },
    },
    {
      method: 'get',
      path: '/v1/models',
      summary: 'The models that are served',
      handler: listing,
      answers: { 200: json('A list of models.', modelsSchema) },
    },
    {
      method: 'get',
      path: '/v1/models/{name}',
      summary: 'One model',
      handler: describing,
      answers: { 200: json('A model.', modelSchema) },
    },
    ...responseOperations,
  ],
  errorSchema: openAiErrorSchema,
  errorAnswer: (c, error) => {
    c.header('x-should-retry', String(shouldRetry(error)));
    return { body: openAiErrorBody(error) };
  },
};

/** A model with several names is listed once for each. */
function listing(deps: RouteDeps): Handler {
  return (c) => {
    const data = deps.models.all.flatMap((model) =>
      model.names.map((name) => modelObject(name, model, deps)),
    );
    return c.json({ object: 'list', data } satisfies ModelList);
  };
}

function describing(deps: RouteDeps): Handler {
  return (c) => {
    const name = c.req.param('name') ?? '';
    return c.json(modelObject(name, findModel(name, deps), deps));
  };
}

function modelObject(
  name: string,
  { created, residency, runner }: ServedModel,
  { models }: RouteDeps,
): ModelObject {
  const { info } = runner.status();
  // The context length under vLLM's name and under the hubs' name. It is unknown until a runner has been ready.
  const context = info && { max_model_len: info.maxModelLen, context_length: info.maxModelLen };
  const model: ModelObject = { id: name, object: 'model', created, owned_by: 'runnel', ...context };
  // The sole model is listed only once it is loaded.
  if (models.sole !== undefined) return model;
  const { state, progress, reason } = residency;
  return { ...model, status: { state, progress: progress ?? null, reason: reason ?? null } };
}
