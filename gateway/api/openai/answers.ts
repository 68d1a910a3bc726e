import * as z from 'zod';
import type { ApiError } from '../../errors/api-error.ts';
import { endedByFields, markFields, timingsSchema } from '../answer-fields.ts';

/** The answers of OpenAI's routes: the types that the encoders use, and the schemas in /openapi.json. */

const logprob = z.object({ token: z.string(), logprob: z.number(), bytes: z.array(z.int()) });

export const tokenLogprobSchema = logprob.extend({ top_logprobs: z.array(logprob) });
export type TokenLogprob = z.infer<typeof tokenLogprobSchema>;

const chatLogprobs = z.object({ content: z.array(tokenLogprobSchema), refusal: z.null() });
export type ChatLogprobs = z.infer<typeof chatLogprobs>;

const completionLogprobs = z.object({
  text_offset: z.array(z.int()),
  token_logprobs: z.array(z.number().nullable()),
  tokens: z.array(z.string()),
  top_logprobs: z.array(z.record(z.string(), z.number()).nullable()),
});
export type CompletionLogprobs = z.infer<typeof completionLogprobs>;

const besideFinish = { ...endedByFields, timings: timingsSchema.optional() };
export type BesideFinish = z.infer<z.ZodObject<typeof besideFinish>>;

const finishReason = z.enum(['stop', 'length', 'tool_calls']);
export type FinishReason = z.infer<typeof finishReason>;

const calledFunction = z.object({ name: z.string(), arguments: z.string() });

const message = z.object({
  role: z.literal('assistant'),
  content: z.string().nullable(),
  refusal: z.null(),
  reasoning_content: z.string().optional(),
  tool_calls: z
    .array(z.object({ id: z.string(), type: z.literal('function'), function: calledFunction }))
    .optional(),
});

const chatChoice = z.object({
  index: z.int(),
  message,
  logprobs: chatLogprobs.nullable(),
  finish_reason: finishReason,
  ...besideFinish,
});
export type ChatChoice = z.infer<typeof chatChoice>;

/** The id and the name come once, with the call's first piece. */
const callDelta = z.object({
  index: z.int(),
  id: z.string().optional(),
  type: z.literal('function').optional(),
  function: z.object({ name: z.string().optional(), arguments: z.string() }),
});
export type CallDelta = z.infer<typeof callDelta>;

const chatDelta = z.object({
  role: z.literal('assistant').optional(),
  content: z.string().optional(),
  reasoning_content: z.string().optional(),
  tool_calls: z.array(callDelta).optional(),
});
export type ChatDelta = z.infer<typeof chatDelta>;

const chatChunkChoice = z.object({
  index: z.int(),
  delta: chatDelta,
  logprobs: chatLogprobs.nullable(),
  finish_reason: finishReason.nullable(),
  ...besideFinish,
});
export type ChatChunkChoice = z.infer<typeof chatChunkChoice>;

const completionChoice = z.object({
  index: z.int(),
  text: z.string(),
  logprobs: completionLogprobs.nullable(),
  finish_reason: finishReason.nullable(),
  ...besideFinish,
});
export type CompletionChoice = z.infer<typeof completionChoice>;

const usage = z.object({
  prompt_tokens: z.int(),
  completion_tokens: z.int(),
  total_tokens: z.int(),
  prompt_tokens_details: z.object({ cached_tokens: z.int() }),
  completion_tokens_details: z.object({ reasoning_tokens: z.int() }).optional(),
});
export type Usage = z.infer<typeof usage>;

const envelope = {
  id: z.string(),
  created: z.int(),
  model: z.string(),
  system_fingerprint: z.string(),
  ...markFields,
};
/** The usage is in the last chunk, after all choices; it is null in the others. */
const chunkUsage = usage.nullable().optional();

export const chatCompletionSchema = z
  .object({ ...envelope, object: z.literal('chat.completion'), choices: z.array(chatChoice), usage })
  .meta({ title: 'ChatCompletion' });

export const chatChunkSchema = z
  .object({
    ...envelope,
    object: z.literal('chat.completion.chunk'),
    choices: z.array(chatChunkChoice),
    usage: chunkUsage,
  })
  .meta({ title: 'ChatCompletionChunk' });

const textCompletion = {
  ...envelope,
  object: z.literal('text_completion'),
  choices: z.array(completionChoice),
};

export const completionSchema = z.object({ ...textCompletion, usage }).meta({ title: 'Completion' });
export const completionChunkSchema = z
  .object({ ...textCompletion, usage: chunkUsage })
  .meta({ title: 'CompletionChunk' });

/** The members of both routes' answers that do not depend on the ChoiceFormat. */
export type CompletionEnvelope = Omit<
  z.infer<typeof chatCompletionSchema> | z.infer<typeof completionSchema>,
  'object' | 'choices'
>;
export type ChunkEnvelope = Omit<
  z.infer<typeof chatChunkSchema> | z.infer<typeof completionChunkSchema>,
  'object' | 'choices'
>;

export const embeddingsSchema = z
  .object({
    object: z.literal('list'),
    data: z.array(
      z.object({
        object: z.literal('embedding'),
        index: z.int(),
        embedding: z.union([z.array(z.number()), z.string()]),
      }),
    ),
    model: z.string(),
    usage: z.object({ prompt_tokens: z.int(), total_tokens: z.int() }),
  })
  .meta({ title: 'Embeddings' });

export const modelSchema = z
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
export type ModelObject = z.infer<typeof modelSchema>;

export const modelsSchema = z
  .object({ object: z.literal('list'), data: z.array(modelSchema) })
  .meta({ title: 'Models' });
export type ModelList = z.infer<typeof modelsSchema>;

/** The error object that OpenAI's clients parse. It is also sent in a stream that has begun. */
export const openAiErrorSchema = z
  .object({
    error: z.object({
      message: z.string(),
      type: z.string(),
      param: z.string().nullable(),
      code: z.string().nullable(),
    }),
  })
  .meta({ title: 'OpenAiError' });

export function openAiErrorBody({
  message,
  status,
  param,
  code,
}: ApiError): z.infer<typeof openAiErrorSchema> {
  const type = ERROR_TYPES[status] ?? (status < 500 ? 'invalid_request_error' : 'server_error');
  return { error: { message, type, param: param ?? null, code } };
}

const ERROR_TYPES: Partial<Record<ApiError['status'], string>> = {
  401: 'authentication_error',
  403: 'permission_error',
  404: 'not_found_error',
  429: 'rate_limit_error',
};
