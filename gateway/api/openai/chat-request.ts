import { z } from 'zod';
import * as fields from '../fields.ts';

/** Bounds a conversation so that a body of tiny messages cannot cost more than its size. */
const MAX_MESSAGES = 4096;

const textPart = z.strictObject({ type: z.literal('text'), text: z.string() });

const content = z.union(
  [z.string(), z.array(textPart).transform((parts) => parts.map((part) => part.text).join(''))],
  {
    error:
      'must be a string or a list of {"type":"text","text":"…"} parts; other kinds of parts are not supported',
  },
);

const message = z.preprocess(
  fields.withoutNulls,
  z.strictObject({
    role: z.enum(['system', 'developer', 'user', 'assistant']),
    content,
    name: fields.unsupported('name', () => false, 'no name'),
    tool_calls: fields.unsupported('tool_calls', isEmptyList, 'an empty list'),
    refusal: fields.unsupported('refusal', () => false, 'none'),
  }),
);

const maxTokens = (name: string) => fields.integer(name, 1, 2 ** 31 - 1).optional();

const schema = z.strictObject({
  model: fields.nonEmpty('model'),
  messages: z.array(message).min(1, 'messages must have at least one message').max(MAX_MESSAGES),
  stream: z.boolean().default(false),
  stream_options: z
    .preprocess(fields.withoutNulls, z.strictObject({ include_usage: z.boolean().default(false) }))
    .optional(),
  max_completion_tokens: maxTokens('max_completion_tokens'),
  max_tokens: maxTokens('max_tokens'),
  temperature: fields.float('temperature', 0, 2).default(1),
  top_p: fields.float('top_p', 0, 1).default(1),
  top_k: fields.integer('top_k', 0, 2 ** 32 - 1).default(0),
  min_p: fields.float('min_p', 0, 1).default(0),
  repetition_penalty: fields.floatAbove('repetition_penalty', 0, 2).default(1),
  seed: fields.seed('seed').optional(),
  stop: z
    .preprocess((value) => (typeof value === 'string' ? [value] : value), fields.stopSequences('stop'))
    .default([]),

  // Known, and refused unless they ask for what happens anyway.
  n: fields.unsupported('n', (value) => value === 1, '1'),
  logprobs: fields.unsupported('logprobs', (value) => value === false, 'false'),
  top_logprobs: fields.unsupported('top_logprobs', (value) => value === 0, '0'),
  presence_penalty: fields.unsupported('presence_penalty', (value) => value === 0, '0'),
  frequency_penalty: fields.unsupported('frequency_penalty', (value) => value === 0, '0'),
  logit_bias: fields.unsupported('logit_bias', isEmptyObject, '{}'),
  response_format: fields.unsupported('response_format', isTextFormat, '{"type":"text"}'),
  tools: fields.unsupported('tools', isEmptyList, '[]'),
  tool_choice: fields.unsupported('tool_choice', (value) => value === 'none' || value === 'auto', '"auto"'),
  parallel_tool_calls: fields.unsupported(
    'parallel_tool_calls',
    (value) => typeof value === 'boolean',
    'true',
  ),

  // Sent by SDKs and without meaning here.
  user: z.unknown().optional(),
  metadata: z.unknown().optional(),
  store: z.unknown().optional(),
  service_tier: z.unknown().optional(),
  safety_identifier: z.unknown().optional(),
  prompt_cache_key: z.unknown().optional(),
});

/** The body of POST /v1/chat/completions, checked and with its defaults. */
export type ChatRequest = z.output<typeof schema>;

/** Throws a 400 whose `param` is the first field at fault and whose message names all of them. */
export function parseChatRequest(body: unknown): ChatRequest {
  return fields.parseBody(schema, body);
}

function isEmptyList(value: unknown): boolean {
  return Array.isArray(value) && value.length === 0;
}

function isEmptyObject(value: unknown): boolean {
  return typeof value === 'object' && value !== null && Object.keys(value).length === 0;
}

function isTextFormat(value: unknown): boolean {
  return typeof value === 'object' && value !== null && 'type' in value && value.type === 'text';
}
