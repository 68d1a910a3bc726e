import * as z from 'zod';
import type { Tool } from '../../calls/tool-offer.ts';
import { asList, asObject, memberOf } from '../../json/json-values.ts';
import type { ChatMessage, ToolCall } from '../../prompt/chat-template.ts';
import type { Grammar } from '../../runner/runner.ts';
import { parseBody } from '../body.ts';
import {
  budgetFields,
  checkThinking,
  durable,
  effort,
  paramsByEffort,
  type ReasoningParams,
  receipt,
} from '../call-fields.ts';
import { argumentsOf, CallNames, chatMessage, MAX_MESSAGES, textContent } from '../conversation.ts';
import * as fields from '../fields.ts';
import {
  ANYTHING,
  type IgnoredFields,
  ignoredFields,
  MAX_TOKENS,
  NO,
  NO_ITEMS,
  NOTHING,
  refuseIgnored,
  violated,
} from '../fields.ts';
import { JSON_OBJECT, schemaGrammar } from '../schema-grammar.ts';
import { strictSchema } from '../strict-schema.ts';
import {
  allowedFields,
  checkTools,
  functionFields,
  toolChoice,
  toolList,
  toolName,
  toolOf,
} from '../tools.ts';

/** The body of POST /v1/responses. Each field is obeyed, refused by name, or accepted because it changes nothing. */

/** Accepted fields of a message that change nothing. Clients send a response's output back with these fields. */
export const itemIgnored = {
  id: ANYTHING,
  phase: ANYTHING,
  status: ANYTHING,
} as const satisfies IgnoredFields;

/** The same for a part of an item's content. */
export const partIgnored = {
  annotations: ANYTHING,
  logprobs: ANYTHING,
  parsed: ANYTHING,
  prompt_cache_breakpoint: ANYTHING,
} as const satisfies IgnoredFields;

const messageItem = z.object({
  type: z.literal('message'),
  role: z.enum(['user', 'system', 'developer', 'assistant']),
  content: textContent(partIgnored, ['input_text', 'output_text']),
  ...ignoredFields(itemIgnored),
});

const textsOf = (type: 'reasoning_text' | 'summary_text') =>
  z.array(z.object({ type: z.literal(type), text: z.string() }));

/** What was thought before the message or call that follows. The summary is used only if there is no content. */
const reasoningItem = z.object({
  type: z.literal('reasoning'),
  content: textsOf('reasoning_text').optional(),
  summary: textsOf('summary_text').default([]),
  ...ignoredFields({ encrypted_content: ANYTHING, id: ANYTHING, status: ANYTHING }),
});

const callItem = z.object({
  type: z.literal('function_call'),
  call_id: fields.nonEmpty('call_id'),
  name: toolName,
  arguments: z.string().transform((text, ctx) => ({ text, value: argumentsOf(text, ctx) })),
  // SDKs add parsed_arguments.
  ...ignoredFields({ id: ANYTHING, parsed_arguments: ANYTHING, status: ANYTHING }),
});

const resultItem = z.object({
  type: z.literal('function_call_output'),
  call_id: z.string(),
  output: textContent(partIgnored, ['input_text', 'output_text']),
  ...ignoredFields({ id: ANYTHING, status: ANYTHING }),
});

const MESSAGES_AND_CALLS =
  'is not supported: items are of the type "message", "reasoning", "function_call" or "function_call_output" here';

/** An item. Without a type, an object is a message. */
const item = z.preprocess(
  (sent) => {
    const isTypeless = Object.keys(asObject(sent)).length > 0 && memberOf(sent, 'type') === undefined;
    return isTypeless && !Array.isArray(sent) ? { ...asObject(sent), type: 'message' } : sent;
  },
  fields.typed(
    ['message', 'reasoning', 'function_call', 'function_call_output'],
    () => MESSAGES_AND_CALLS,
    z.discriminatedUnion('type', [messageItem, reasoningItem, callItem, resultItem]),
    (ctx) => fields.violated(ctx, 'type', 'must be an item: an object with a type or a role'),
  ),
);

export type Item = z.output<typeof item>;

/** A conversation: its items as they are kept, and as templates see them. */
export interface Conversation {
  readonly items: readonly object[];
  readonly messages: readonly ChatMessage[];
}

/**
 * A text, or items: messages, what was thought, calls of tools and their results. earlier: the items of the conversation that they
 * continue.
 */
function inputItems(earlier: readonly Item[]) {
  return z
    .preprocess(
      (value) => (typeof value === 'string' ? [{ role: 'user', content: value }] : value),
      z
        .array(item, 'must be a string or an array of items')
        .min(1, 'must have at least one item')
        .max(MAX_MESSAGES, `must have at most ${MAX_MESSAGES} items`),
    )
    .transform((own, ctx): Conversation => {
      const items = [...earlier, ...own];
      const count = [items.length, MAX_MESSAGES] as const;
      if (earlier.length > 0) fields.refuseMany(ctx, 'input and what it continues', count, 'items together');
      return { items: items.map(keptItem), messages: messagesOf(items, earlier.length, ctx) };
    })
    .meta({ type: ['string', 'array'] });
}

/** Items that were kept. */
export function itemsOf(kept: unknown): readonly Item[] {
  return parseBody(z.array(item), asList(kept));
}

/** An item as OpenAI lists it. Its text is in one part, and it has an id of its place in the conversation unless its client gave it one. */
function keptItem(each: Item, index: number): object {
  const { id: given, type } = each;
  const id = typeof given === 'string' ? given : `item_${index}`;
  const status = 'completed';
  switch (type) {
    case 'message': {
      const { role, content: text } = each;
      const part =
        role === 'assistant' ? { type: 'output_text', text, annotations: [] } : { type: 'input_text', text };
      return { id, type, status, role, content: [part] };
    }
    case 'reasoning': {
      const { summary, content } = each;
      return { id, type, status, summary, ...(content && { content }) };
    }
    case 'function_call': {
      const { call_id, name, arguments: given } = each;
      return { id, type, status, call_id, name, arguments: given.text };
    }
    case 'function_call_output':
      return { id, type, status, call_id: each.call_id, output: each.output };
  }
}

/**
 * The conversation as templates see it. A call is added to the message of the assistant before it, or gets one without text.
 * numEarlier: the items that are not of the body.
 */
function messagesOf(items: readonly Item[], numEarlier: number, ctx: fields.Context): ChatMessage[] {
  const names = new CallNames(ctx, 'item');
  const messages: ChatMessage[] = [];
  const thoughts: string[] = [];
  const takeThought = (): string => thoughts.splice(0).join('');
  for (const [index, each] of items.entries()) {
    if (each.type === 'message') {
      const { role, content } = each;
      // A thought before another role's message, or before a result, belongs to an answer that is not here.
      const thought = takeThought();
      const isAnswer = role === 'assistant';
      messages.push(chatMessage(role === 'developer' ? 'system' : role, content, isAnswer ? thought : ''));
    } else if (each.type === 'reasoning') {
      const { content, summary } = each;
      thoughts.push(...(content ?? summary).map(({ text }) => text));
    } else if (each.type === 'function_call') {
      const call = { id: each.call_id, name: each.name, arguments: each.arguments.value };
      names.add([call]);
      addCall(messages, call, takeThought());
    } else {
      takeThought();
      messages.push(names.result(each.call_id, each.output, [index - numEarlier, 'call_id']));
    }
  }
  return messages;
}

function addCall(messages: ChatMessage[], call: ToolCall, thought: string): void {
  const last = messages.at(-1);
  if (last?.role === 'assistant' && thought === '')
    messages[messages.length - 1] = { ...last, toolCalls: [...(last.toolCalls ?? []), call] };
  else messages.push(chatMessage('assistant', '', thought, [call]));
}

interface DescribedTool extends Tool {
  /** The tool as the response repeats it. */
  readonly described: object;
}

const tool = z
  .object({
    type: z.literal('function'),
    ...functionFields,
    strict: z.boolean().optional(),
    ...ignoredFields({
      allowed_callers: [['direct']],
      defer_loading: NO,
      // Only the client makes results, so their schema changes nothing here.
      output_schema: ANYTHING,
    }),
  })
  .transform(({ type, name, description, parameters: sent, strict: wanted }): DescribedTool => {
    // As with OpenAI, a tool that does not say is strict if its schema, if it has one, has a strict form.
    const strictForm = wanted === undefined && sent !== undefined ? strictSchema(sent) : undefined;
    const strict = wanted ?? (sent === undefined || strictForm !== undefined);
    const parameters = strictForm ?? sent;
    const told = description === undefined ? {} : { description };
    return {
      ...toolOf({ name, description, parameters }, strict),
      described: { type, name, ...told, parameters: parameters ?? null, strict },
    };
  });

/** Tools that agents offer beside functions. The model is not told of them, so it cannot call them. */
const LEFT_OUT = ['custom', 'local_shell', 'web_search'];
const leftOutTool = z.looseObject({ type: z.enum(LEFT_OUT) }).transform(() => undefined);

/** Names the tools of a body that are left out. */
export function leftOutTools(body: unknown): string[] {
  const types = asList(memberOf(body, 'tools')).map((each) => String(memberOf(each, 'type')));
  return LEFT_OUT.filter((type) => types.includes(type)).map((type) => `tools.${type}`);
}

const named = z.strictObject({ type: z.literal('function'), name: z.string() });
const allowed = z.strictObject({ type: z.literal('allowed_tools'), ...allowedFields(named) });

const toolFields = {
  tools: toolList('function', z.discriminatedUnion('type', [tool, leftOutTool]), ['name'], LEFT_OUT),
  tool_choice: toolChoice(named, '{"type":"function","name":"…"}', allowed),
  parallel_tool_calls: z.boolean().default(true),
};

export const textIgnored = { verbosity: ['medium'] } as const satisfies IgnoredFields;

interface TextFormat {
  /** Undefined: the answer may be any text. */
  readonly grammar: Grammar | undefined;
  /** The format as the response repeats it. */
  readonly described: object;
}

const PLAIN: TextFormat = { grammar: undefined, described: { type: 'text' } };

const format = z
  .strictObject({
    type: z.enum(['text', 'json_object', 'json_schema']),
    name: z.string().optional(),
    description: z.string().optional(),
    schema: z.unknown().optional(),
    strict: z.boolean().optional(),
  })
  .transform(({ type, ...described }, ctx): TextFormat => {
    if (type === 'json_schema') {
      const { name = null, description = null, schema = null, strict = false } = described;
      const grammar = schemaGrammar(ctx, 'text.format.schema', described.schema, strict);
      return { grammar, described: { type, name, description, schema, strict } };
    }
    for (const [name, value] of Object.entries(described)) {
      if (value === undefined) continue;
      const sentence = `text.format.${name} needs the type json_schema (got ${type})`;
      violated(ctx, 'exclusive', sentence, [name]);
    }
    return type === 'text' ? PLAIN : { grammar: JSON_OBJECT, described: { type } };
  });

const textField = z
  .strictObject({ format: format.optional(), ...ignoredFields(textIgnored) })
  .default({})
  .transform(({ format: asked }) => asked ?? PLAIN);

export const reasoningSummary = z.enum(['auto', 'concise', 'detailed']);

/** The fields that say whether a response thinks, and for how long. All of the thinking is returned, never a summary. */
const reasoningFields = {
  reasoning: z.strictObject({ effort: effort.optional(), summary: reasoningSummary.optional() }).optional(),
  /** OpenAI has no budget; these have the names that chats use. */
  ...budgetFields,
};

type ReasoningFields = z.output<z.ZodObject<typeof reasoningFields>>;

export function reasoningParams(request: ReasoningFields): ReasoningParams {
  return paramsByEffort('reasoning.effort', request.reasoning?.effort, request);
}

const MAX_TOP_LOGPROBS = 20;
const MAX_METADATA = 16;
const MAX_METADATA_KEY = 64;
const MAX_METADATA_VALUE = 512;

const LOGPROBS = 'message.output_text.logprobs';
/** All but the first concern data that no answer of this server has, so they change nothing. */
const INCLUDABLE = [
  LOGPROBS,
  'code_interpreter_call.outputs',
  'computer_call_output.output.image_url',
  'file_search_call.results',
  'message.input_image.image_url',
  'reasoning.encrypted_content',
  'web_search_call.action.sources',
  'web_search_call.results',
] as const;

export const responsesIgnored = {
  client_metadata: ANYTHING,
  context_management: NO_ITEMS,
  conversation: NOTHING,
  intent: ANYTHING,
  max_tool_calls: ANYTHING,
  moderation: NOTHING,
  prompt: NOTHING,
  prompt_cache_key: ANYTHING,
  prompt_cache_options: ANYTHING,
  prompt_cache_retention: ANYTHING,
  safety_identifier: ANYTHING,
  service_tier: ANYTHING,
  stream_options: [{}, { include_obfuscation: false }],
  // Prompts are never cut: one that is too long is a 400, whatever this says.
  truncation: ANYTHING,
  user: ANYTHING,
} as const satisfies IgnoredFields;

/** The response repeats the metadata. Errors do not, since its texts may be private. */
const metadata = z.record(z.string(), z.string()).superRefine((pairs, ctx) => {
  const entries = Object.entries(pairs);
  fields.refuseMany(ctx, 'metadata', [entries.length, MAX_METADATA], 'members');
  const isTooLong = ([name, value]: [string, string]) =>
    [...name].length > MAX_METADATA_KEY || [...value].length > MAX_METADATA_VALUE;
  if (!entries.some(isTooLong)) return;
  const sentence = `metadata must have names of at most ${MAX_METADATA_KEY} characters and values of at most ${MAX_METADATA_VALUE}`;
  fields.violated(ctx, `max_length(${MAX_METADATA_VALUE})`, sentence);
});

/** earlier: the items of the conversation that the request continues. */
export function responsesBodyAfter(earlier: readonly Item[]) {
  return z
    .strictObject({
      model: fields.nonEmpty('model'),
      input: inputItems(earlier),
      previous_response_id: z.string().optional(),
      instructions: z.string().optional(),
      max_output_tokens: fields.integer('max_output_tokens', 1, MAX_TOKENS).optional(),
      temperature: fields.float('temperature', 0, 2).default(1),
      top_p: fields.float('top_p', 0, 1).default(1),
      text: textField,
      ...reasoningFields,
      ...toolFields,
      include: z
        .array(z.enum(INCLUDABLE))
        .transform((names) => ({ logprobs: names.includes(LOGPROBS) }))
        .default({ logprobs: false }),
      top_logprobs: fields.integer('top_logprobs', 0, MAX_TOP_LOGPROBS).default(0),
      metadata: metadata.default({}),
      stream: z.boolean().default(false),
      background: z.boolean().default(false),
      durable,
      receipt,
      store: z.boolean().optional(),
      /** An addition: OpenAI has a seed only for chats. */
      seed: fields.seed('seed').optional(),
      /** An addition too. */
      priority: fields.priority,
      ...ignoredFields(responsesIgnored),
    })
    .superRefine((request, ctx) => {
      const { include, top_logprobs, store, background, durable } = request;
      checkThinking(ctx, reasoningParams(request));
      checkTools(ctx, request, include.logprobs ? ['include'] : []);
      const isRefused = store === false && (background || durable);
      refuseIgnored(
        ctx,
        isRefused,
        'store',
        'must not be false with background or durable, which are stored',
      );
      const isIgnored = !include.logprobs && top_logprobs > 0;
      refuseIgnored(ctx, isIgnored, 'top_logprobs', `needs include to have "${LOGPROBS}"`);
    });
}

export const responsesBody = responsesBodyAfter([]);

/** What a body asks, besides its input. */
export type ResponsesRequest = Omit<z.output<typeof responsesBody>, 'input'>;
