import * as z from 'zod';
import type { Call } from '../../calls/call.ts';
import type { ThinkingParams } from '../../calls/thinking.ts';
import type { ToolChoice } from '../../calls/tool-offer.ts';
import { ApiError } from '../../errors/api-error.ts';
import { memberOf } from '../../json/json-values.ts';
import type { ChatMessage } from '../../prompt/chat-template.ts';
import { codec } from '../body.ts';
import { durable, receipt, samplingFields, samplingOf } from '../call-fields.ts';
import {
  aboutImages,
  CallNames,
  chatMessage,
  checkLast,
  continuing,
  MAX_MESSAGES,
  refuseSpeaker,
  TOO_MANY_MESSAGES,
  textContent,
} from '../conversation.ts';
import * as fields from '../fields.ts';
import { ANYTHING, EITHER, ignoredFields, MAX_TOKENS, NO, NO_ITEMS, NOTHING, violated } from '../fields.ts';
import { schemaGrammar } from '../schema-grammar.ts';
import {
  calledWith,
  checkTools,
  toolList,
  toolName,
  toolOf,
  toolParameters,
  toolParamsOf,
} from '../tools.ts';
import { messageEncoding, THREAD_UNSUPPORTED } from './message.ts';

/** Bodies of POST /v1/messages and its count_tokens. Each field is obeyed, refused by name, or has no effect. */

/** Fields of a block of text that are not obeyed. */
const blockIgnored = { cache_control: ANYTHING, citations: NO_ITEMS } as const;
/** Precedes the text of a result that is an error: templates have no other place for that. */
const ERROR = 'Error: ';

const textBlock = z.object({ type: z.literal('text'), text: z.string(), ...ignoredFields(blockIgnored) });

/** Thinking that came before a text or a call. */
const thinkingBlock = z.object({
  type: z.literal('thinking'),
  thinking: z.string(),
  // The signature is not checked.
  ...ignoredFields({ cache_control: ANYTHING, signature: ANYTHING }),
});

const callBlock = z.object({
  type: z.literal('tool_use'),
  id: fields.nonEmpty('id'),
  name: toolName,
  input: calledWith,
  ...ignoredFields({ cache_control: ANYTHING, caller: ANYTHING }),
});

const resultBlock = z.object({
  type: z.literal('tool_result'),
  tool_use_id: z.string(),
  content: textContent(blockIgnored).default(''),
  is_error: z.boolean().default(false),
  ...ignoredFields({ cache_control: ANYTHING }),
});

const TEXT_AND_CALLS = 'blocks are of the type "text", "thinking", "tool_use" or "tool_result" here';

const block = fields.typed(
  ['text', 'thinking', 'tool_use', 'tool_result'],
  (type) => `is not supported: ${aboutImages(type)}${TEXT_AND_CALLS}`,
  z.discriminatedUnion('type', [textBlock, thinkingBlock, callBlock, resultBlock]),
  (ctx) => fields.refuseMissing(ctx, ['type']),
);

type Block = z.output<typeof block>;

/** The role whose messages may have blocks of a type. */
const SPEAKERS = new Map<unknown, string>([
  ['thinking', 'assistant'],
  ['tool_use', 'assistant'],
  ['tool_result', 'user'],
]);

const content = z
  .preprocess(
    (value) => (typeof value === 'string' ? [{ type: 'text', text: value }] : value),
    z.array(block, 'must be a string or an array of blocks'),
  )
  .meta({ type: ['string', 'array'] });

const message = z
  .object({ role: z.enum(['user', 'assistant', 'system']), content })
  .superRefine(({ role, content: blocks }, ctx) => {
    // This also runs over blocks that were refused, which may be any value.
    for (const [index, each] of blocks.entries()) {
      const speaker = SPEAKERS.get(memberOf(each, 'type'));
      if (speaker !== undefined && role !== speaker) refuseSpeaker(ctx, speaker, ['content', index, 'type']);
    }
  })
  .meta({ title: 'MessageParam' });

/** Makes the conversation as templates see it. A user's message with tool results becomes several messages. */
const conversation = z
  .array(message)
  .min(1, 'must have at least one message')
  .max(MAX_MESSAGES, TOO_MANY_MESSAGES)
  .transform((messages, ctx) => {
    const names = new CallNames(ctx, 'message');
    return messages.flatMap(({ role, content: blocks }, index): ChatMessage[] => {
      if (role === 'assistant') return [saidByAssistant(blocks, names)];
      const said: ChatMessage[] = [];
      for (const [at, each] of blocks.entries()) {
        if (each.type === 'text') sayText(said, role, each.text);
        if (each.type !== 'tool_result') continue;
        const text = each.is_error ? ERROR + each.content : each.content;
        said.push(names.result(each.tool_use_id, text, [index, 'content', at, 'tool_use_id']));
      }
      return said.length === 0 ? [{ role, content: '' }] : said;
    });
  })
  .superRefine(checkLast);

/** One message: the texts are joined, and so is the thinking, which comes first; the calls come last. */
function saidByAssistant(blocks: readonly Block[], names: CallNames): ChatMessage {
  const calls = blocks.flatMap((each) =>
    each.type === 'tool_use' ? [{ id: each.id, name: each.name, arguments: each.input }] : [],
  );
  names.add(calls);
  const texts = blocks.map((each) => (each.type === 'text' ? each.text : ''));
  const thoughts = blocks.map((each) => (each.type === 'thinking' ? each.thinking : ''));
  return chatMessage('assistant', texts.join(''), thoughts.join(''), calls);
}

function sayText(said: ChatMessage[], role: 'user' | 'system', text: string): void {
  const last = said.at(-1);
  if (last?.role === role) said[said.length - 1] = { role, content: last.content + text };
  else said.push({ role, content: text });
}

const tool = z
  .object({
    type: z.literal('custom').optional(),
    name: toolName,
    description: z.string().optional(),
    input_schema: toolParameters,
    strict: z.boolean().default(false),
    ...ignoredFields({
      allowed_callers: [['direct']],
      cache_control: ANYTHING,
      defer_loading: NO,
      // Arguments are streamed as they are drawn, whatever the value.
      eager_input_streaming: EITHER,
      input_examples: NO_ITEMS,
    }),
  })
  .transform(({ input_schema: parameters, ...sent }) => toolOf({ ...sent, parameters }, sent.strict))
  .meta({ title: 'CustomTool' });

const toolChoice = z
  .strictObject({
    type: z.enum(['auto', 'any', 'tool', 'none']),
    name: z.string().optional(),
    disable_parallel_tool_use: z.boolean().default(false),
  })
  .superRefine(({ type, name }, ctx) => {
    if (type === 'tool' && name === undefined)
      violated(ctx, 'required', 'tool_choice.name is required with the type tool', ['name']);
    if (type !== 'tool' && name !== undefined)
      violated(ctx, 'exclusive', `tool_choice.name needs the type tool (got ${type})`, ['name']);
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

const toolFields = { tools: toolList('custom', tool), tool_choice: toolChoice };

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

interface ThinkingFields {
  readonly thinking?: z.output<typeof thinkingField>;
  readonly output_config: { readonly effort?: string | undefined };
}

/** Reports a budget that is not less than max_tokens. */
function checkBudget(ctx: fields.Context, { thinking }: ThinkingFields, maxTokens: number): void {
  if (thinking?.type !== 'enabled' || thinking.budget_tokens < maxTokens) return;
  const { budget_tokens: budget } = thinking;
  const sentence = `thinking.budget_tokens must be less than max_tokens, which is ${maxTokens} (got ${budget})`;
  const rule = { constraint: `range(1..${maxTokens})`, value: String(budget) };
  violated(ctx, rule, sentence, ['thinking', 'budget_tokens']);
}

function isThinking({ thinking }: ThinkingFields): boolean {
  return thinking !== undefined && thinking.type !== 'disabled';
}

const EFFORT = 'output_config.effort';

/** A model that does not think ignores an effort and the type adaptive, which leaves the thinking to the model. */
function thinkingParamsOf(request: ThinkingFields): ThinkingParams {
  if (!isThinking(request)) return { isOn: false };
  const { thinking, output_config } = request;
  const { effort } = output_config;
  const hints = effort === undefined ? [] : [EFFORT];
  if (thinking?.type !== 'enabled') return { isOn: true, effort, hints: [...hints, 'thinking'] };
  return { isOn: true, effort, hints, maxTokens: thinking.budget_tokens, field: 'thinking' };
}

/** The fields about thinking that no model obeys: an effort for an answer without thinking. */
function ignoredEffort(request: ThinkingFields): string[] {
  return request.output_config.effort === undefined || isThinking(request) ? [] : [EFFORT];
}

/** Fields of both routes. */
const promptIgnored = {
  cache_control: ANYTHING,
  // Edits that change nothing.
  context_management: [{}, { edits: [] }, { edits: [{ type: 'clear_thinking_20251015', keep: 'all' }] }],
  speed: ['standard'],
} as const;

const promptFields = {
  model: fields.nonEmpty('model'),
  messages: conversation,
  system: textContent(blockIgnored).optional(),
  thinking: thinkingField,
  output_config: outputConfig,
  ...toolFields,
};

const BEGUN_FORM =
  'output_config.format and a last message of the assistant exclude each other: the form is that of a whole answer; send one of them';
const BEGUN_THINKING =
  'thinking and a last message of the assistant exclude each other: nothing is thought within an answer that has begun; send one of them';

const messagesBody = z
  .strictObject({
    ...promptFields,
    max_tokens: fields.integer('max_tokens', 1, MAX_TOKENS),
    stop_sequences: fields.stopSequences('stop_sequences').default([]),
    stream: z.boolean().default(false),
    durable,
    receipt,
    ...samplingFields(),
    ...ignoredFields({
      ...promptIgnored,
      container: NOTHING,
      diagnostics: NOTHING,
      inference_geo: NOTHING,
      mcp_servers: NO_ITEMS,
      metadata: ANYTHING,
      service_tier: ['auto', 'standard_only'],
      user_profile_id: ANYTHING,
      workspace_id: ANYTHING,
    }),
  })
  .superRefine((request, ctx) => {
    checkTools(ctx, request);
    checkBudget(ctx, request, request.max_tokens);
    const { thinking, output_config, messages } = request;
    if (!continuing(messages).continuesLast) return;
    if (output_config.format !== undefined)
      violated(ctx, 'exclusive', BEGUN_FORM, ['output_config', 'format']);
    if (thinking?.type === 'enabled') violated(ctx, 'exclusive', BEGUN_THINKING, ['thinking']);
  });

const countBody = z
  .strictObject({ ...promptFields, ...ignoredFields(promptIgnored) })
  .superRefine((request, ctx) => checkTools(ctx, request));

/** POST /v1/messages. */
export const messages = refusingThreads(
  codec(
    messagesBody,
    (request) => ({
      call: {
        ...promptCall(request),
        isStreamed: request.stream,
        sampling: samplingOf(request),
        maxTokens: request.max_tokens,
        stop: request.stop_sequences,
        durable: request.durable ? 'durable' : undefined,
        receipt: request.receipt,
      },
      encoding: messageEncoding(request),
    }),
    ignoredEffort,
  ),
);

/** POST /v1/messages/count_tokens: the call is not answered, but its prompt is counted. */
export const counted = refusingThreads(
  codec(countBody, (request) => ({ call: promptCall(request) }), ignoredEffort),
);

function promptCall(request: z.output<typeof countBody>): Call {
  const { model, system, messages, output_config } = request;
  const { format: grammar } = output_config;
  return {
    model,
    isStreamed: false,
    input: {
      field: 'messages',
      messages: system === undefined ? messages : [{ role: 'system', content: system }, ...messages],
      template: continuing(messages),
    },
    tools: toolParamsOf(request),
    format: grammar && { field: 'output_config.format', grammar },
    thinking: thinkingParamsOf(request),
    sampling: {},
    stop: [],
  };
}

/** The codec, but it throws a 400 for a kept conversation, with the code at which SDKs send the whole conversation instead. */
function refusingThreads<Sent extends { readonly parse: (sent: unknown) => unknown }>(kind: Sent): Sent {
  const parse = (sent: unknown): unknown => {
    if ((memberOf(sent, 'thread') ?? null) === null) return kind.parse(sent);
    const message = 'thread is not supported: the server keeps no conversation; send all messages without it';
    throw new ApiError({ status: 400, code: THREAD_UNSUPPORTED, message, param: 'thread' });
  };
  return { ...kind, parse };
}
