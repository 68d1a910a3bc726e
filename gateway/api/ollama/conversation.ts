import * as z from 'zod';
import type { ChatMessage, ToolCall } from '../../prompt/chat-template.ts';
import { MAX_MESSAGES, refuseContinuation, TOO_MANY_MESSAGES } from '../conversation-parts.ts';
import * as fields from '../fields.ts';
import { ANYTHING, type InertFields, ignoredIn, inert, NO_ITEMS } from '../inert.ts';
import { asList, asObject, memberOf } from '../text-content.ts';
import { calledWith, toolName } from '../tool-parts.ts';

/** Messages as Ollama's API has them, with calls of tools and their results. */

/** Of a message. */
export const messageInert = { images: NO_ITEMS } as const satisfies InertFields;
/** Of what a call is of. */
export const calledInert = { index: ANYTHING } as const satisfies InertFields;

const toolCall = z.strictObject({
  id: z.string().optional(),
  type: z.literal('function').optional(),
  function: z.strictObject({
    name: toolName,
    arguments: calledWith,
    ...inert(calledInert),
  }),
});

const toolCalls = z
  .unknown()
  // In what a tool was called with, null is a value like any other.
  .transform((sent) =>
    Array.isArray(sent) ? sent.map((call) => fields.withoutNulls(call, ['function.arguments'])) : sent,
  )
  .pipe(z.array(toolCall));

const message = z
  .unknown()
  .transform((sent) => fields.withoutNulls(sent, ['tool_calls']))
  .pipe(
    z.strictObject({
      role: z.enum(['system', 'user', 'assistant', 'tool']),
      content: z.string().optional(),
      tool_calls: toolCalls.optional(),
      tool_call_id: z.string().optional(),
      tool_name: z.string().optional(),
      thinking: z.string().optional(),
      ...inert(messageInert),
    }),
  )
  .superRefine(({ role, content, tool_calls = [], tool_call_id, tool_name, thinking = '' }, ctx) => {
    const isOf = (name: string, speaker: string) => {
      const sentence = `is of messages with the role ${JSON.stringify(speaker)}`;
      fields.violated(ctx, { constraint: 'role' }, sentence, [name]);
    };
    if (content === undefined && role !== 'assistant')
      fields.violated(ctx, { constraint: 'required' }, 'is required', ['content']);
    if (role !== 'assistant' && tool_calls.length > 0) isOf('tool_calls', 'assistant');
    if (role !== 'assistant' && thinking !== '') isOf('thinking', 'assistant');
    if (role !== 'tool' && tool_name !== undefined) isOf('tool_name', 'tool');
    if (role !== 'tool' && tool_call_id !== undefined) isOf('tool_call_id', 'tool');
  });

type Message = z.output<typeof message>;

/** In it, null is a value like any other: each message has its own dropped. */
export const verbatimMessages = 'messages';

/** A conversation as templates see it. */
export const conversation = z
  .array(message)
  .max(MAX_MESSAGES, TOO_MANY_MESSAGES)
  .superRefine(refuseContinuation)
  .transform(conversationOf)
  .default([]);

/** Of calls without an id, the place among all calls is one. A result is of the first call that it may be of and that has none. */
function conversationOf(messages: readonly Message[], ctx: Pick<z.RefinementCtx, 'addIssue'>): ChatMessage[] {
  let numCalls = 0;
  const open: ToolCall[] = [];
  return messages.map((each, index): ChatMessage => {
    const { role, content = '', tool_calls = [], thinking = '' } = each;
    if (role === 'tool') return { role, content, answers: answered(open, each, ctx, index) };
    const calls = tool_calls.map(({ id, function: { name, arguments: given } }): ToolCall => {
      return { id: id ?? `call_${numCalls++}`, name, arguments: given };
    });
    open.push(...calls);
    return {
      role,
      content,
      ...(thinking === '' ? {} : { reasoning: thinking }),
      ...(calls.length === 0 ? {} : { toolCalls: calls }),
    };
  });
}

/** The call that a result is of, which is open no more. */
function answered(
  open: ToolCall[],
  { tool_call_id: id, tool_name: name }: Message,
  ctx: Pick<z.RefinementCtx, 'addIssue'>,
  index: number,
): Pick<ToolCall, 'id' | 'name'> {
  const at = open.findIndex(
    (call) => (id === undefined || call.id === id) && (name === undefined || call.name === name),
  );
  const [call] = at < 0 ? [] : open.splice(at, 1);
  if (call !== undefined) return { id: call.id, name: call.name };
  const field = id === undefined ? (name === undefined ? 'role' : 'tool_name') : 'tool_call_id';
  const sentence = 'is of no call in the messages before that has no result yet';
  fields.violated(ctx, { constraint: 'known' }, sentence, [index, field]);
  return { id: '', name: '' };
}

/** Names of what was sent with these messages and not looked at. */
export function ignoredInMessages(messages: unknown): string[] {
  return asList(messages).flatMap((each) => [
    ...ignoredIn(messageInert, asObject(each), 'messages.'),
    ...asList(memberOf(each, 'tool_calls')).flatMap((call) =>
      ignoredIn(calledInert, asObject(memberOf(call, 'function')), 'messages.tool_calls.function.'),
    ),
  ]);
}
