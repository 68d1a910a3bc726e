import * as z from 'zod';
import { JsonFault, parseLosslessJson } from '../json/json-parser.ts';
import { isJsonObject, jsonText } from '../json/json-values.ts';
import {
  type ChatMessage,
  type RenderOptions,
  reservedVariables,
  type ToolCall,
} from '../prompt/chat-template.ts';
import * as fields from './fields.ts';
import {
  ANYTHING,
  type IgnoredFields,
  ignoredFields,
  NO,
  NO_ITEMS,
  NOTHING,
  refuseBoth,
  violated,
} from './fields.ts';
import { toolName } from './tools.ts';

/** What the conversations of all APIs have in common. */

/** Bounds the number of messages or items: many tiny ones would cost far more than their bytes. */
export const MAX_MESSAGES = 4096;
export const TOO_MANY_MESSAGES = `must have at most ${MAX_MESSAGES} messages`;

const NO_CALLS = 'the last message must not have tool calls: it is continued, and they need results';

/** Reports what cannot be continued, for APIs in which a conversation that ends with an assistant's message asks for that. */
export function checkLast(messages: readonly ChatMessage[], ctx: fields.Context): void {
  const last = messages.at(-1);
  if (last?.role === 'assistant' && last.toolCalls !== undefined) violated(ctx, 'unsupported', NO_CALLS);
}

/** How such a conversation is rendered. */
export function continuing(messages: readonly ChatMessage[]): Omit<RenderOptions, 'tools'> {
  const continuesLast = messages.at(-1)?.role === 'assistant';
  return { continuesLast, addsGenerationPrompt: !continuesLast };
}

/** Reports a member that only messages with the role `speaker` may have. path: from the message to the member. */
export function refuseSpeaker(ctx: fields.Context, speaker: string, path: (string | number)[]): void {
  const sentence = `is allowed only in messages with the role ${JSON.stringify(speaker)}`;
  violated(ctx, 'role', sentence, path);
}

export function chatMessage(
  role: ChatMessage['role'],
  content: string,
  reasoning = '',
  toolCalls: readonly ToolCall[] = [],
): ChatMessage {
  return {
    role,
    content,
    ...(reasoning === '' ? {} : { reasoning }),
    ...(toolCalls.length === 0 ? {} : { toolCalls }),
  };
}

/** The calls of a conversation, by which the results that follow are known. */
export class CallNames {
  readonly #names = new Map<string, string>();
  readonly #ctx: fields.Context;
  readonly #place: string;

  /** place: what a call stands in, in the API's words. */
  constructor(ctx: fields.Context, place: 'message' | 'item') {
    this.#ctx = ctx;
    this.#place = place;
  }

  add(calls: readonly ToolCall[]): void {
    for (const { id, name } of calls) this.#names.set(id, name);
  }

  /** The message with the result of a call. Reports an id that no earlier call has. path: of the id. */
  result(id: string, content: string, path: (string | number)[]): ChatMessage {
    const name = this.#names.get(id);
    const sentence = `is not the id of a tool call in an earlier ${this.#place}`;
    if (name === undefined) violated(this.#ctx, { constraint: 'known' }, sentence, path);
    return { role: 'tool', content, answers: { id, name: name ?? '' } };
  }
}

/** The content of a message: a string, or parts of text, which are joined. partIgnored: fields of a part that are not obeyed. types: the types of parts that are text. */
export function textContent(
  partIgnored: IgnoredFields,
  types: readonly [string, ...(readonly string[])] = ['text'],
) {
  const kinds = types.map((type) => JSON.stringify(type)).join(' or ');
  const part = fields.typed(
    types,
    (type) => `is not supported: ${aboutImages(type)}models read text here, in parts of the type ${kinds}`,
    z.object({ type: z.enum(types), text: z.string(), ...ignoredFields(partIgnored) }),
  );
  return z
    .preprocess(
      (value) => (typeof value === 'string' ? [{ type: types[0], text: value }] : value),
      z.array(part, `must be a string or an array of {"type":"${types[0]}","text":"…"} parts`),
    )
    .transform((parts) => parts.map(({ text }) => text).join(''))
    .meta({ type: ['string', 'array'] });
}

/** Clients and their users look for the word. */
export function aboutImages(type: unknown): string {
  return typeof type === 'string' && type.includes('image') ? 'images are not read here; ' : '';
}

/** A conversation as chats and /apply-template have it: its messages, and how the model's template renders them. */

/** Fields of a message, among them what SDKs send back from an answer. */
export const messageIgnored = {
  annotations: ANYTHING,
  audio: NOTHING,
  cache_control: ANYTHING,
  function_call: NOTHING,
  images: NO_ITEMS,
  name: ANYTHING,
  parsed: NOTHING,
  // Other APIs' names of continue_final_message.
  partial: NO,
  prefix: NO,
  provider_specific_fields: ANYTHING,
  reasoning_details: ANYTHING,
  refusal: [''],
  thinking_blocks: ANYTHING,
} as const satisfies IgnoredFields;

/** Fields of a tool call in a message: its index, as streams have it. */
const toolCallIgnored = { index: ANYTHING } as const satisfies IgnoredFields;

/** Fields of the function in a tool call: its arguments as SDKs have parsed them. */
const calledIgnored = { parsed_arguments: ANYTHING } as const satisfies IgnoredFields;

export const partIgnored = {
  cache_control: ANYTHING,
  prompt_cache_breakpoint: ANYTHING,
} as const satisfies IgnoredFields;

const NO_FUNCTIONS = 'is not supported: send results in messages with the role "tool"';

const role = z
  .unknown()
  .superRefine((value, ctx) => {
    if (value === 'function') fields.violated(ctx, 'unsupported', NO_FUNCTIONS);
  })
  .pipe(z.enum(['system', 'developer', 'user', 'assistant', 'tool']));

const NO_ARGUMENTS = 'must be an object as JSON text';

/** The arguments of a call, as JSON text. SDKs send an empty string for a call without arguments. */
export const callArguments = z.string().transform(argumentsOf);

export function argumentsOf(text: string, ctx: fields.Context): object {
  if (text === '') return {};
  try {
    const value = parseLosslessJson(text);
    if (isJsonObject(value)) return value;
  } catch (error) {
    if (!(error instanceof JsonFault)) throw error;
  }
  fields.violated(ctx, 'json', NO_ARGUMENTS);
  return z.NEVER;
}

const toolCall = z
  .object({
    id: fields.nonEmpty('id'),
    type: z.literal('function').default('function'),
    function: z.object({ name: toolName, arguments: callArguments, ...ignoredFields(calledIgnored) }),
    ...ignoredFields(toolCallIgnored),
  })
  .transform(({ id, function: { name, arguments: given } }): ToolCall => ({ id, name, arguments: given }));

const message = z
  .object({
    role,
    content: textContent(partIgnored).optional(),
    reasoning_content: z.string().optional(),
    reasoning: z.string().optional(),
    tool_calls: z.array(toolCall).default([]),
    tool_call_id: z.string().optional(),
    ...ignoredFields(messageIgnored),
  })
  .superRefine(({ role, content, tool_calls, tool_call_id, reasoning_content, reasoning }, ctx) => {
    // Only an assistant's message may lack content: an answer that is sent back may have been empty.
    if (content === undefined && role !== 'assistant') fields.refuseMissing(ctx, ['content']);
    if (role === 'tool' && tool_call_id === undefined) fields.refuseMissing(ctx, ['tool_call_id']);
    if (role !== 'tool' && tool_call_id !== undefined) refuseSpeaker(ctx, 'tool', ['tool_call_id']);
    if (role === 'assistant') return;
    const thought = reasoning_content ? 'reasoning_content' : reasoning ? 'reasoning' : undefined;
    if (thought !== undefined) refuseSpeaker(ctx, 'assistant', [thought]);
    if (tool_calls.length > 0) refuseSpeaker(ctx, 'assistant', ['tool_calls']);
  })
  .meta({ title: 'ChatMessage' });

/** A conversation of at least one message. The call that each tool result answers must be in the messages before it. */
export const chatMessages = z
  .array(message)
  .min(1, 'must have at least one message')
  .max(MAX_MESSAGES, TOO_MANY_MESSAGES)
  .transform((messages, ctx) => {
    const names = new CallNames(ctx, 'message');
    return messages.map(({ role, content = '', tool_calls, tool_call_id: id, ...thoughts }, index) => {
      names.add(tool_calls);
      if (id !== undefined) return names.result(id, content, [index, 'tool_call_id']);
      const reasoning = thoughts.reasoning_content ?? thoughts.reasoning;
      return chatMessage(role === 'developer' ? 'system' : role, content, reasoning, tool_calls);
    });
  });

/** The longest chat_template_kwargs, as JSON. */
const MAX_KWARGS_CHARACTERS = 16_384;

const kwargs = z.record(z.string(), z.unknown()).superRefine((given, ctx) => {
  for (const name of reservedVariables) {
    if (!Object.hasOwn(given, name)) continue;
    const sentence = `chat_template_kwargs must not have ${name}: the template gets that from the request itself`;
    violated(ctx, 'exclusive', sentence, [name]);
  }
  const numCharacters = jsonText(given).length;
  if (numCharacters <= MAX_KWARGS_CHARACTERS) return;
  const rule = { constraint: `max_length(${MAX_KWARGS_CHARACTERS})`, value: String(numCharacters) };
  const sentence = `chat_template_kwargs must have at most ${MAX_KWARGS_CHARACTERS} characters as JSON (got ${numCharacters})`;
  violated(ctx, rule, sentence);
});

/** Named as in vLLM and llama-server. */
export const templateFields = {
  add_generation_prompt: z.boolean().optional(),
  chat_template_kwargs: kwargs.default({}),
  continue_final_message: z.boolean().default(false),
};

type TemplateFields = z.output<z.ZodObject<typeof templateFields>>;

export function checkTemplateFields(
  ctx: fields.Context,
  request: TemplateFields & { readonly messages: readonly ChatMessage[] },
): void {
  if (!request.continue_final_message) return;
  const name = 'continue_final_message';
  const last = request.messages.at(-1);
  if (last?.role !== 'assistant' || last.toolCalls !== undefined) {
    const sentence = `${name} needs the last message to have the role "assistant" and no tool calls`;
    violated(ctx, 'unsupported', sentence, [name]);
  }
  if (request.add_generation_prompt === true) refuseBoth(ctx, name, 'add_generation_prompt');
}

export function renderOptions(request: TemplateFields): Omit<RenderOptions, 'tools'> {
  return {
    variables: request.chat_template_kwargs,
    addsGenerationPrompt: request.add_generation_prompt ?? true,
    continuesLast: request.continue_final_message,
  };
}
