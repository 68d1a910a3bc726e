import * as z from 'zod';
import type { ApiError } from '../../errors/api-error.ts';
import { endedByFields, markFields } from '../answer-fields.ts';

/** The answers of Ollama's routes: the types that the encoders use, and the schemas in /openapi.json. */

const call = z.object({
  id: z.string(),
  function: z.object({
    index: z.int(),
    name: z.string(),
    /** JSON text as the model wrote it. */
    arguments: z.custom<object>().meta({ type: 'object' }),
  }),
});

const message = z.object({
  role: z.literal('assistant'),
  content: z.string(),
  thinking: z.string().optional(),
  tool_calls: z.array(call).optional(),
});
export type ChatMessageText = { readonly message: z.infer<typeof message> };
const responseFields = { response: z.string(), thinking: z.string().optional() };
export type ResponseText = z.infer<z.ZodObject<typeof responseFields>>;

const named = { model: z.string(), created_at: z.string() };
export type NamedLine = z.infer<z.ZodObject<typeof named>>;

/** Members of the last line, or of the only one. */
const endFields = {
  done: z.literal(true),
  done_reason: z.enum(['stop', 'length', 'load', 'unload']),
  total_duration: z.int().optional(),
  load_duration: z.int().optional(),
  prompt_eval_count: z.int().optional(),
  prompt_eval_duration: z.int().optional(),
  eval_count: z.int().optional(),
  eval_duration: z.int().optional(),
  ...endedByFields,
  ...markFields,
};
export type AnswerEndFields = z.infer<z.ZodObject<typeof endFields>>;

export const chatSchema = z.object({ ...named, message, ...endFields }).meta({ title: 'OllamaChat' });
export const chatLineSchema = z
  .object({ ...named, message, done: z.literal(false) })
  .meta({ title: 'OllamaChatLine' });
export const generateSchema = z
  .object({ ...named, ...responseFields, ...endFields })
  .meta({ title: 'OllamaGenerate' });
export const generateLineSchema = z
  .object({ ...named, ...responseFields, done: z.literal(false) })
  .meta({ title: 'OllamaGenerateLine' });

export const embedSchema = z
  .object({
    model: z.string(),
    embeddings: z.array(z.array(z.number())),
    total_duration: z.int(),
    load_duration: z.int(),
    prompt_eval_count: z.int(),
  })
  .meta({ title: 'OllamaEmbed' });
export const embeddingSchema = z
  .object({ embedding: z.array(z.number()) })
  .meta({ title: 'OllamaEmbedding' });

export const versionSchema = z.object({ version: z.string() }).meta({ title: 'OllamaVersion' });

const details = z.object({
  format: z.enum(['gguf', 'safetensors']),
  family: z.string(),
  families: z.array(z.string()),
  quantization_level: z.string().optional(),
});
export type Details = z.infer<typeof details>;

/** The digest has 64 hexadecimal digits. */
const names = { name: z.string(), model: z.string(), digest: z.string() };
export type Names = z.infer<z.ZodObject<typeof names>>;

const tag = z.object({
  ...names,
  modified_at: z.string(),
  size: z.int().optional(),
  details: details.optional(),
});
export const tagsSchema = z.object({ models: z.array(tag) }).meta({ title: 'OllamaTags' });
export type Tags = z.infer<typeof tagsSchema>;

const running = z.object({
  ...names,
  size: z.int(),
  details,
  size_vram: z.int(),
  context_length: z.int(),
});
export const psSchema = z.object({ models: z.array(running) }).meta({ title: 'OllamaPs' });
export type Ps = z.infer<typeof psSchema>;

export const showAnswerSchema = z
  .object({
    modified_at: z.string(),
    details,
    /** Properties under their names in GGUF files. */
    model_info: z.record(z.string(), z.union([z.string(), z.number()])),
    capabilities: z.array(z.enum(['completion', 'tools', 'thinking', 'embedding'])),
  })
  .meta({ title: 'OllamaShow' });
export type Show = z.infer<typeof showAnswerSchema>;

export const pulledSchema = z.object({ status: z.literal('success') }).meta({ title: 'OllamaPulled' });
export type Pulled = z.infer<typeof pulledSchema>;

/** The error object. It is also the last line of a stream that has begun. */
export const ollamaErrorSchema = z.object({ error: z.string() }).meta({ title: 'OllamaError' });

export function ollamaErrorBody({ message }: ApiError): z.infer<typeof ollamaErrorSchema> {
  return { error: message };
}
