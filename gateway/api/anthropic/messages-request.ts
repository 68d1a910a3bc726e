import * as z from 'zod';
import type { Call, ParsedCall } from '../../calls/call.ts';
import { ApiError } from '../../errors/api-error.ts';
import { memberOf } from '../../json/json-values.ts';
import { durable } from '../durable-field.ts';
import * as fields from '../fields.ts';
import { MAX_TOKENS } from '../fields.ts';
import { ANYTHING, type InertFields, ignoredIn, inert, NO_ITEMS, NOTHING } from '../inert.ts';
import { textContent } from '../text-content.ts';
import { checkTools, toolWishOf } from '../tools.ts';
import { blockInert, conversation } from './conversation.ts';
import { THREAD_UNSUPPORTED } from './errors.ts';
import { messageEncoding } from './message.ts';
import {
  checkThinking,
  ignoredEffort,
  outputConfig,
  thinkingField,
  thinkingWishOf,
} from './output-config.ts';
import { toolFields } from './tool-fields.ts';

/** Bodies of POST /v1/messages and its count_tokens. Each field is obeyed, refused by name, or has no effect. */

/** Fields of both routes. */
export const promptInert = {
  cache_control: ANYTHING,
  // Edits that change nothing.
  context_management: [{}, { edits: [] }, { edits: [{ type: 'clear_thinking_20251015', keep: 'all' }] }],
  speed: ['standard'],
} as const satisfies InertFields;

/** Fields of POST /v1/messages. */
export const messagesInert = {
  ...promptInert,
  container: NOTHING,
  diagnostics: NOTHING,
  inference_geo: NOTHING,
  mcp_servers: NO_ITEMS,
  metadata: ANYTHING,
  service_tier: ['auto', 'standard_only'],
  user_profile_id: ANYTHING,
  workspace_id: ANYTHING,
} as const satisfies InertFields;

const promptFields = {
  model: fields.nonEmpty('model'),
  messages: conversation,
  system: textContent(blockInert).optional(),
  thinking: thinkingField,
  output_config: outputConfig,
  ...toolFields,
};

/** The fields of POST /v1/messages. */
export const messagesFields = {
  ...promptFields,
  max_tokens: fields.integer('max_tokens', 1, MAX_TOKENS),
  stop_sequences: fields.stopSequences('stop_sequences').default([]),
  stream: z.boolean().default(false),
  durable,
  temperature: fields.float('temperature', 0, 2).default(1),
  top_p: fields.float('top_p', 0, 1).default(1),
  top_k: fields.integer('top_k', 0, 2 ** 32 - 1).default(0),
  ...inert(messagesInert),
};

export const messagesSchema = z.strictObject(messagesFields).superRefine((request, ctx) => {
  checkTools(ctx, request);
  checkThinking(ctx, request);
});
export const countSchema = z
  .strictObject({ ...promptFields, ...inert(promptInert) })
  .superRefine((request, ctx) => checkTools(ctx, request));

export type MessagesRequest = z.output<typeof messagesSchema>;
export type CountRequest = z.output<typeof countSchema>;

/** Throws a 400 whose message names every field at fault. */
export function parseMessages(body: unknown): ParsedCall {
  refuseThread(body);
  const request = fields.parseBody(messagesSchema, body);
  const { temperature, top_p: topP, top_k: topK } = request;
  const call = {
    ...promptCall(request),
    isStreamed: request.stream,
    sampling: { temperature, topP, topK },
    maxTokens: request.max_tokens,
    stop: request.stop_sequences,
    durable: request.durable ? ('durable' as const) : undefined,
  };
  return {
    call,
    ignored: [...ignoredIn(messagesSchema, body), ...ignoredEffort(request)],
    encoding: messageEncoding(request),
  };
}

/** The call whose prompt is to be counted. */
export function parseCount(body: unknown): Pick<ParsedCall, 'call' | 'ignored'> {
  refuseThread(body);
  const request = fields.parseBody(countSchema, body);
  return { call: promptCall(request), ignored: [...ignoredIn(countSchema, body), ...ignoredEffort(request)] };
}

function promptCall(request: CountRequest): Call {
  const { model, system, messages, output_config } = request;
  const { format: grammar } = output_config;
  return {
    model,
    isStreamed: false,
    input: {
      field: 'messages',
      messages: system === undefined ? messages : [{ role: 'system', content: system }, ...messages],
    },
    tools: toolWishOf(request),
    format: grammar && { field: 'output_config.format', grammar },
    thinking: thinkingWishOf(request),
    sampling: {},
    stop: [],
  };
}

/** Throws a 400 with the code at which SDKs send the whole conversation instead. */
function refuseThread(body: unknown): void {
  if ((memberOf(body, 'thread') ?? null) === null) return;
  const message = 'thread is not supported: the server keeps no conversation; send all messages without it';
  throw new ApiError({ status: 400, code: THREAD_UNSUPPORTED, message, param: 'thread' });
}
