import * as z from 'zod';
import type { ChatMessage, ToolCall } from '../../prompt/chat-template.ts';
import {
  chatMessage,
  MAX_MESSAGES,
  refuseContinuation,
  refuseSpeaker,
  TOO_MANY_MESSAGES,
} from '../conversation.ts';
import * as fields from '../fields.ts';
import { ANYTHING, inert, NO_ITEMS } from '../fields.ts';
import { calledWith, toolName } from '../tools.ts';

/** The messages of Ollama's API, with tool calls and their results. */

const toolCall = z.object({
  id: z.string().optional(),
  type: z.literal('function').optional(),
  function: z.object({ name: toolName, arguments: calledWith, ...inert({ index: ANYTHING }) }),
});

const message = z
  .object({
    role: z.enum(['system', 'user', 'assistant', 'tool']),
    content: z.string().optional(),
    tool_calls: z.array(toolCall).optional(),
    tool_call_id: z.string().optional(),
    tool_name: z.string().optional(),
    thinking: z.string().optional(),
    ...inert({ images: NO_ITEMS }),
  })
  .superRefine(({ role, content, tool_calls = [], tool_call_id, tool_name, thinking = '' }, ctx) => {
    if (content === undefined && role !== 'assistant')
      fields.violated(ctx, { constraint: 'required' }, 'is required', ['content']);
    if (role !== 'assistant' && tool_calls.length > 0) refuseSpeaker(ctx, 'assistant', ['tool_calls']);
    if (role !== 'assistant' && thinking !== '') refuseSpeaker(ctx, 'assistant', ['thinking']);
    if (role !== 'tool' && tool_name !== undefined) refuseSpeaker(ctx, 'tool', ['tool_name']);
    if (role !== 'tool' && tool_call_id !== undefined) refuseSpeaker(ctx, 'tool', ['tool_call_id']);
  });

type Message = z.output<typeof message>;

/** Makes the conversation as templates see it. */
export const conversation = z
  .array(message)
  .max(MAX_MESSAGES, TOO_MANY_MESSAGES)
  .superRefine(refuseContinuation)
  .transform(conversationOf)
  .default([]);

/**
 * A call without an id gets one from its index among the calls without ids. A result answers the first call that matches
 * its id and name and has no result yet.
 */
function conversationOf(messages: readonly Message[], ctx: Pick<z.RefinementCtx, 'addIssue'>): ChatMessage[] {
  let numCalls = 0;
  const open: ToolCall[] = [];
  return messages.map((each, index): ChatMessage => {
    const { role, content = '', tool_calls = [], thinking } = each;
    if (role === 'tool') return { role, content, answers: answered(open, each, ctx, index) };
    const calls = tool_calls.map(({ id, function: { name, arguments: given } }): ToolCall => {
      return { id: id ?? `call_${numCalls++}`, name, arguments: given };
    });
    open.push(...calls);
    return chatMessage(role, content, thinking, calls);
  });
}

/** Finds the call that a result answers, and takes it out of the open ones. */
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
  const sentence = 'matches no earlier tool call that still lacks a result';
  fields.violated(ctx, { constraint: 'known' }, sentence, [index, field]);
  return { id: '', name: '' };
}
