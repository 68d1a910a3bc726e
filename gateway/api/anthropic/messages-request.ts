import * as z from 'zod';
import type { Call, ParsedCall } from '../../calls/call.ts';
import type { ThinkingWish } from '../../calls/thinking.ts';
import type { ToolChoice } from '../../calls/tool-offer.ts';
import { ApiError } from '../../errors/api-error.ts';
import { memberOf } from '../../json/json-values.ts';
import { ignoredIn, parseBody } from '../body.ts';
import { textContent } from '../conversation.ts';
import { durable } from '../durable-field.ts';
import * as fields from '../fields.ts';
import {
  ANYTHING,
  EITHER,
  type InertFields,
  inert,
  MAX_TOKENS,
  NO,
  NO_ITEMS,
  NOTHING,
  violated,
} from '../fields.ts';
import { samplingFields, samplingOf } from '../sampling-fields.ts';
import { schemaGrammar } from '../schema-grammar.ts';
import { checkTools, toolList, toolName, toolOf, toolParameters, toolWishOf } from '../tools.ts';
import { THREAD_UNSUPPORTED } from './answers.ts';
import { blockInert, conversation } from './conversation.ts';
import { messageEncoding } from './message.ts';

/** Bodies of POST /v1/messages and its count_tokens. Each field is obeyed, refused by name, or has no effect. */

const tool = z
  .object({
    type: z.literal('custom').optional(),
    name: toolName,
    description: z.string().optional(),
    input_schema: toolParameters,
    strict: z.boolean().default(false),
    ...inert({
      allowed_callers: [['direct']],
      cache_control: ANYTHING,
      defer_loading: NO,
      // Arguments are streamed as they are drawn, whatever the value.
      eager_input_streaming: EITHER,
      input_examples: NO_ITEMS,
    }),
  })
  .transform(({ input_schema: parameters, ...sent }) => toolOf({ ...sent, parameters }, sent.strict));

const toolChoice = z
  .strictObject({
    type: z.enum(['auto', 'any', 'tool', 'none']),
    name: z.string().optional(),
    disable_parallel_tool_use: z.boolean().default(false),
  })
  .superRefine(({ type, name }, ctx) => {
    if (type === 'tool' && name === undefined)
      fields.violated(ctx, { constraint: 'required' }, 'tool_choice.name is required with the type tool', [
        'name',
      ]);
    if (type !== 'tool' && name !== undefined) {
      const sentence = `tool_choice.name needs the type tool (got ${type})`;
      fields.violated(ctx, { constraint: 'exclusive' }, sentence, ['name']);
    }
  })
  .transform(({ type, name = '', disable_parallel_tool_use: isSingle }) => {
    const choices: Record<typeof type, ToolChoice> = {
      auto: 'auto',
      any: 'required',
      tool: { name },
      none: 'none',
    };
    return { choice: choices[type], isParallel: !isSingle };
  })
  .prefault({ type: 'auto' });

export const toolFields = { tools: toolList('custom', tool), tool_choice: toolChoice };

const format = z
  .strictObject({ type: z.literal('json_schema'), schema: z.unknown() })
  .transform(({ schema }, ctx) => schemaGrammar(ctx, 'output_config.format.schema', schema, false));

const outputConfig = z
  .strictObject({
    effort: z.enum(['low', 'medium', 'high', 'xhigh', 'max']).optional(),
    format: format.optional(),
  })
  .default({});

const enabled = z.strictObject({
  type: z.literal('enabled'),
  budget_tokens: z.int().min(1),
  display: z.literal('summarized').optional(),
});
/** The model decides how long it thinks. */
const adaptive = z.strictObject({ type: z.literal('adaptive'), display: z.literal('summarized').optional() });
const disabled = z.strictObject({ type: z.literal('disabled') });

/** Without this field the message does not think, as with Anthropic. */
const thinkingField = z.discriminatedUnion('type', [enabled, adaptive, disabled]).optional();

type ThinkingField = z.output<typeof thinkingField>;

/** Checks that the budget is less than max_tokens. */
export function checkThinking(
  ctx: Pick<z.RefinementCtx, 'addIssue'>,
  { thinking, max_tokens }: { readonly thinking?: ThinkingField; readonly max_tokens: number },
): void {
  if (thinking?.type !== 'enabled' || thinking.budget_tokens < max_tokens) return;
  const sentence = `thinking.budget_tokens must be less than max_tokens, which is ${max_tokens} (got ${thinking.budget_tokens})`;
  const rule = { constraint: `range(1..${max_tokens})`, value: String(thinking.budget_tokens) };
  violated(ctx, rule, sentence, ['thinking', 'budget_tokens']);
}

interface AskedToThink {
  readonly thinking?: ThinkingField;
  readonly output_config: { readonly effort?: string | undefined };
}

/** A model that does not think ignores an effort and the type adaptive, which leaves the thinking to the model. */
export function thinkingWishOf({ thinking, output_config: { effort } }: AskedToThink): ThinkingWish {
  if (thinking === undefined || thinking.type === 'disabled') return { isOn: false };
  const hints = effort === undefined ? [] : [EFFORT];
  const wish = { isOn: true, effort, hints };
  if (thinking.type === 'adaptive') return { ...wish, hints: [...hints, 'thinking'] };
  return { ...wish, maxTokens: thinking.budget_tokens, field: 'thinking' };
}

const EFFORT = 'output_config.effort';

/** The fields about thinking that no model obeys: an effort for an answer without thinking. */
function ignoredEffort({ thinking, output_config: { effort } }: AskedToThink): string[] {
  const isOff = thinking === undefined || thinking.type === 'disabled';
  return isOff && effort !== undefined ? [EFFORT] : [];
}

/** Fields of both routes. */
const promptInert = {
  cache_control: ANYTHING,
  // Edits that change nothing.
  context_management: [{}, { edits: [] }, { edits: [{ type: 'clear_thinking_20251015', keep: 'all' }] }],
  speed: ['standard'],
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
  ...samplingFields(),
  ...inert({
    ...promptInert,
    container: NOTHING,
    diagnostics: NOTHING,
    inference_geo: NOTHING,
    mcp_servers: NO_ITEMS,
    metadata: ANYTHING,
    service_tier: ['auto', 'standard_only'],
    user_profile_id: ANYTHING,
    workspace_id: ANYTHING,
  }),
};

export const messagesSchema = z.strictObject(messagesFields).superRefine((request, ctx) => {
  checkTools(ctx, request);
  checkThinking(ctx, request);
});
export const countSchema = z
  .strictObject({ ...promptFields, ...inert(promptInert) })
  .superRefine((request, ctx) => checkTools(ctx, request));

type CountRequest = z.output<typeof countSchema>;

/** Throws a 400 whose message names every field at fault. */
export function parseMessages(body: unknown): ParsedCall {
  refuseThread(body);
  const request = parseBody(messagesSchema, body);
  const call = {
    ...promptCall(request),
    isStreamed: request.stream,
    sampling: samplingOf(request),
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
  const request = parseBody(countSchema, body);
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
