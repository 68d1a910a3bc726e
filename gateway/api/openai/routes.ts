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
import { batchOperations } from '../batches/routes.ts';
import { openAiErrorBody } from '../error-bodies.ts';
import { openAiErrorSchema } from '../error-schemas.ts';
import { rerankOperations, rerankPaths } from '../rerank/routes.ts';
import { responseOperations } from '../responses/routes.ts';
import { calling, get, post, requestId } from '../route.ts';
import { chat } from './chat-request.ts';
import {
  chatChunkSchema,
  chatCompletionSchema,
  completionChunkSchema,
  completionSchema,
} from './completion.ts';
import { completions } from './completion-request.ts';
import { embedding, embeddingBody, embeddingsSchema } from './embeddings.ts';

const modelSchema = z
  .object({
    id: z.string(),
    object: z.literal('model'),
    created: z.int(),
    owned_by: z.literal('runnel'),
    max_model_len: z.int().optional(),
    context_length: z.int().optional(),
    status: z
      .object({
        state: z.enum(['loaded', 'loading', 'unloaded', 'failed']),
        progress: z.number().nullable(),
        reason: z.string().nullable(),
      })
      .optional(),
  })
  .meta({ title: 'Model' });
type ModelObject = z.infer<typeof modelSchema>;

const modelsSchema = z
  .object({ object: z.literal('list'), data: z.array(modelSchema) })
  .meta({ title: 'Models' });

/** Events of a stream. Each is a chunk or an error. */
const chunks = (chunk: z.ZodType): Events => ({
  unnamed: z.union([chunk, openAiErrorSchema]),
  last: '[DONE]',
});

export const openAiGroup: RouteGroup = {
  name: 'openai',
  paths: ['/v1/*'],
  access: 'key',
  generating: ['/v1/chat/completions', '/v1/completions', '/v1/embeddings', '/v1/responses', ...rerankPaths],
  begin: requestId(),
  operations: [
    calling(
      '/v1/chat/completions',
      'The next message of a conversation',
      chat,
      jsonOrEvents('A chat.completion, or chunks and [DONE].', chatCompletionSchema, chunks(chatChunkSchema)),
    ),
    calling(
      '/v1/completions',
      'The continuation of prompts',
      { ...completions, body: completions.body.meta({ required: ['model', 'prompt'] }) },
      jsonOrEvents(
        'A text_completion, or chunks and [DONE].',
        completionSchema,
        chunks(completionChunkSchema),
      ),
    ),
    post(
      '/v1/embeddings',
      'Vectors of texts',
      embedding,
      embeddingBody,
      json('A list of embeddings.', embeddingsSchema),
    ),
    ...rerankOperations,
    get('/v1/models', 'The models that are served', listing, json('A list of models.', modelsSchema)),
    get('/v1/models/{name}', 'One model', describing, json('A model.', modelSchema)),
    ...responseOperations,
    ...batchOperations,
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
    return c.json({ object: 'list', data } satisfies z.infer<typeof modelsSchema>);
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
  { created, loadState, runner }: ServedModel,
  { models }: RouteDeps,
): ModelObject {
  const { info } = runner.status();
  // The context length under vLLM's name and under the hubs' name. It is unknown until a runner has been ready.
  const context = info && { max_model_len: info.maxModelLen, context_length: info.maxModelLen };
  const model: ModelObject = { id: name, object: 'model', created, owned_by: 'runnel', ...context };
  // The sole model is listed only once it is loaded.
  if (models.single !== undefined) return model;
  const { state, progress, reason } = loadState;
  return { ...model, status: { state, progress: progress ?? null, reason: reason ?? null } };
}
