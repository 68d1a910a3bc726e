import * as z from 'zod';
import type { ApiError } from '../../errors/api-error.ts';
import { endedByFields, markFields } from '../answer-fields.ts';

/** The answers of Anthropic's routes: the types that the encoders use, and the schemas in /openapi.json. */

const textBlock = z.object({ type: z.literal('text'), text: z.string() });
export type TextBlock = z.infer<typeof textBlock>;

/** The input is JSON text as the model wrote it. */
const callBlock = z.object({
  type: z.literal('tool_use'),
  id: z.string(),
  name: z.string(),
  input: z.custom<object>().meta({ type: 'object' }),
});
export type CallBlock = z.infer<typeof callBlock>;

/** The signature is made by the gateway. It is empty in the event that begins a block. */
const thinkingBlock = z.object({ type: z.literal('thinking'), thinking: z.string(), signature: z.string() });
export type ThinkingBlock = z.infer<typeof thinkingBlock>;

const block = z.discriminatedUnion('type', [thinkingBlock, textBlock, callBlock]);
export type Block = z.infer<typeof block>;

const stopFields = {
  stop_reason: z
    .enum(['end_turn', 'max_tokens', 'stop_sequence', 'tool_use', 'model_context_window_exceeded'])
    .nullable(),
  stop_sequence: z.string().nullable(),
};
const moreOfEnd = { ...endedByFields, ...markFields };
export type Stop = z.infer<z.ZodObject<typeof stopFields & typeof moreOfEnd>>;

const usage = z.object({
  input_tokens: z.int(),
  cache_creation_input_tokens: z.int(),
  cache_read_input_tokens: z.int(),
  output_tokens: z.int(),
});
export type Usage = z.infer<typeof usage>;

export const messageSchema = z
  .object({
    id: z.string(),
    type: z.literal('message'),
    role: z.literal('assistant'),
    model: z.string(),
    content: z.array(block),
    ...stopFields,
    ...moreOfEnd,
    usage,
  })
  .meta({ title: 'Message' });
export type MessageObject = z.infer<typeof messageSchema>;

export const tokenCountSchema = z.object({ input_tokens: z.int() }).meta({ title: 'TokenCount' });

const delta = z.discriminatedUnion('type', [
  z.object({ type: z.literal('thinking_delta'), thinking: z.string() }),
  z.object({ type: z.literal('signature_delta'), signature: z.string() }),
  z.object({ type: z.literal('text_delta'), text: z.string() }),
  z.object({ type: z.literal('input_json_delta'), partial_json: z.string() }),
]);

/** The events by name, all but the error. */
export const messageEventSchemas = {
  message_start: z.object({ type: z.literal('message_start'), message: messageSchema }),
  ping: z.object({ type: z.literal('ping') }),
  content_block_start: z.object({
    type: z.literal('content_block_start'),
    index: z.int(),
    content_block: block,
  }),
  content_block_delta: z.object({ type: z.literal('content_block_delta'), index: z.int(), delta }),
  content_block_stop: z.object({ type: z.literal('content_block_stop'), index: z.int() }),
  message_delta: z.object({
    type: z.literal('message_delta'),
    delta: z.object(stopFields),
    usage,
    ...moreOfEnd,
  }),
  message_stop: z.object({ type: z.literal('message_stop') }),
};

type EventSchemas = typeof messageEventSchemas;
export type MessageEvent = { [Name in keyof EventSchemas]: z.infer<EventSchemas[Name]> }[keyof EventSchemas];

/** The error object that Anthropic's clients parse. It is also the data of an event in a stream that has begun. */
export const anthropicErrorSchema = z
  .object({
    type: z.literal('error'),
    error: z.object({
      type: z.string(),
      message: z.string(),
      details: z.object({ error_code: z.string() }).optional(),
    }),
    request_id: z.string(),
  })
  .meta({ title: 'AnthropicError' });
export type AnthropicErrorBody = z.infer<typeof anthropicErrorSchema>;

/** The code of a request for a kept conversation. SDKs look for it, and go on without one. */
export const THREAD_UNSUPPORTED = 'thread_unsupported_request';

export function anthropicErrorBody(
  { code, message, status }: ApiError,
  requestId: string,
): AnthropicErrorBody {
  const details = code === THREAD_UNSUPPORTED ? { details: { error_code: code } } : {};
  const type = ERROR_TYPES[status] ?? (status < 500 ? 'invalid_request_error' : 'api_error');
  return { type: 'error', error: { type, message, ...details }, request_id: requestId };
}

const ERROR_TYPES: Partial<Record<ApiError['status'], string>> = {
  401: 'authentication_error',
  403: 'permission_error',
  404: 'not_found_error',
  413: 'request_too_large',
  429: 'rate_limit_error',
  503: 'overloaded_error',
  504: 'timeout_error',
};
