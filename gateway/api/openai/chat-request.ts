import { z } from 'zod';
import * as fields from '../fields.ts';
import { checkMinTokens } from '../token-constraints.ts';
import { harmlessFields, maxTokens, refuseIgnored, sharedFields } from './shared-fields.ts';

/** Bounds a conversation so that a body of tiny messages cannot cost more than its size. */
const MAX_MESSAGES = 4096;
const MAX_TOP_LOGPROBS = 20;

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

/** The fields of POST /v1/chat/completions. */
export const chatFields = {
  ...sharedFields,
  messages: z.array(message).min(1, 'messages must have at least one message').max(MAX_MESSAGES),
  max_completion_tokens: maxTokens('max_completion_tokens').optional(),
  max_tokens: maxTokens('max_tokens').optional(),
  logprobs: z.boolean().default(false),
  top_logprobs: fields.integer('top_logprobs', 0, MAX_TOP_LOGPROBS).default(0),

  // Known, and refused unless they ask for what happens anyway.
  response_format: fields.unsupported('response_format', isTextFormat, '{"type":"text"}'),
  tools: fields.unsupported('tools', isEmptyList, '[]'),
  tool_choice: fields.unsupported('tool_choice', (value) => value === 'none' || value === 'auto', '"auto"'),
  parallel_tool_calls: fields.unsupported(
    'parallel_tool_calls',
    (value) => typeof value === 'boolean',
    'true',
  ),

  ...harmlessFields,
};

const schema = z.strictObject(chatFields).superRefine((request, ctx) => {
  const { stream, stream_options, logprobs, top_logprobs, max_tokens, max_completion_tokens } = request;
  refuseIgnored(ctx, !stream && stream_options !== undefined, 'stream_options', 'needs stream to be true');
  refuseIgnored(ctx, !logprobs && top_logprobs > 0, 'top_logprobs', 'needs logprobs to be true');
  const isSecond = max_completion_tokens !== undefined && max_tokens !== undefined;
  refuseIgnored(
    ctx,
    isSecond && max_tokens !== max_completion_tokens,
    'max_tokens',
    'and max_completion_tokens mean the same; send one of them',
  );
  checkMinTokens(ctx, request.min_tokens, max_completion_tokens ?? max_tokens);
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

function isTextFormat(value: unknown): boolean {
  return typeof value === 'object' && value !== null && 'type' in value && value.type === 'text';
}
