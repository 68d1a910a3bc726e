import * as z from 'zod';
import { asObject, memberOf } from '../../json/json-values.ts';
import type { ChatMessage, ToolCall } from '../../prompt/chat-template.ts';
import { callArguments } from '../chat-message.ts';
import { CallNames, chatMessage, MAX_MESSAGES, textContent } from '../conversation.ts';
import * as fields from '../fields.ts';
import { ANYTHING, type InertFields, inert } from '../fields.ts';
import { toolName } from '../tools.ts';

/** The input of a response: a text, or items. Items are messages, what was thought, calls of tools and their results. */

/** Accepted fields of a message that change nothing. Clients send a response's output back with these fields. */
export const itemInert = { id: ANYTHING, phase: ANYTHING, status: ANYTHING } as const satisfies InertFields;

/** The same for a part of an item's content. */
export const partInert = {
  annotations: ANYTHING,
  logprobs: ANYTHING,
  parsed: ANYTHING,
  prompt_cache_breakpoint: ANYTHING,
} as const satisfies InertFields;

const messageItem = z.object({
  type: z.literal('message'),
  role: z.enum(['user', 'system', 'developer', 'assistant']),
  content: textContent(partInert, ['input_text', 'output_text']),
  ...inert(itemInert),
});

const textsOf = (type: 'reasoning_text' | 'summary_text') =>
  z.array(z.object({ type: z.literal(type), text: z.string() }));

/** What was thought before the message or call that follows. The summary is used only if there is no content. */
const reasoningItem = z.object({
  type: z.literal('reasoning'),
  content: textsOf('reasoning_text').optional(),
  summary: textsOf('summary_text').default([]),
  ...inert({ encrypted_content: ANYTHING, id: ANYTHING, status: ANYTHING }),
});

const callItem = z.object({
  type: z.literal('function_call'),
  call_id: fields.nonEmpty('call_id'),
  name: toolName,
  arguments: callArguments,
  // SDKs add parsed_arguments.
  ...inert({ id: ANYTHING, parsed_arguments: ANYTHING, status: ANYTHING }),
});

const resultItem = z.object({
  type: z.literal('function_call_output'),
  call_id: z.string(),
  output: textContent(partInert, ['input_text', 'output_text']),
  ...inert({ id: ANYTHING, status: ANYTHING }),
});

const MESSAGES_AND_CALLS =
  'is not supported: items are of the type "message", "reasoning", "function_call" or "function_call_output" here';
const NOTHING_STORED =
  'is not supported: nothing is stored here that it could refer to; send the item itself';

/** An item. Without a type, an object is a message. */
const item = z.preprocess(
  (sent) => {
    const isTypeless = Object.keys(asObject(sent)).length > 0 && memberOf(sent, 'type') === undefined;
    return isTypeless && !Array.isArray(sent) ? { ...asObject(sent), type: 'message' } : sent;
  },
  fields.typed(
    ['message', 'reasoning', 'function_call', 'function_call_output'],
    (type) => (type === 'item_reference' ? NOTHING_STORED : MESSAGES_AND_CALLS),
    z.discriminatedUnion('type', [messageItem, reasoningItem, callItem, resultItem]),
    (ctx) => fields.violated(ctx, { constraint: 'type' }, 'must be an item: an object with a type or a role'),
  ),
);

type Item = z.output<typeof item>;

export const inputItems = z
  .preprocess(
    (value) => (typeof value === 'string' ? [{ role: 'user', content: value }] : value),
    z
      .array(item, 'must be a string or an array of items')
      .min(1, 'must have at least one item')
      .max(MAX_MESSAGES, `must have at most ${MAX_MESSAGES} items`),
  )
  .transform(conversationOf);

/** The conversation as templates see it. A call is added to the message of the assistant before it, or gets one without text. */
function conversationOf(items: readonly Item[], ctx: Pick<z.RefinementCtx, 'addIssue'>): ChatMessage[] {
  const names = new CallNames(ctx, 'item');
  const messages: ChatMessage[] = [];
  const thoughts: string[] = [];
  const takeThought = (): string => thoughts.splice(0).join('');
  for (const [index, each] of items.entries()) {
    if (each.type === 'message') {
      const { role, content } = each;
      const thought = role === 'assistant' ? takeThought() : '';
      messages.push(chatMessage(role === 'developer' ? 'system' : role, content, thought));
    } else if (each.type === 'reasoning') {
      const { content, summary } = each;
      thoughts.push(...(content ?? summary).map(({ text }) => text));
    } else if (each.type === 'function_call') {
      const call = { id: each.call_id, name: each.name, arguments: each.arguments };
      names.add([call]);
      addCall(messages, call, takeThought());
    } else messages.push(names.result(each.call_id, each.output, [index, 'call_id']));
  }
  return messages;
}

function addCall(messages: ChatMessage[], call: ToolCall, thought: string): void {
  const last = messages.at(-1);
  if (last?.role === 'assistant' && thought === '')
    messages[messages.length - 1] = { ...last, toolCalls: [...(last.toolCalls ?? []), call] };
  else messages.push(chatMessage('assistant', '', thought, [call]));
}
