import * as z from 'zod';
import { memberOf } from '../../json/json-values.ts';
import type { ChatMessage } from '../../prompt/chat-template.ts';
import {
  aboutImages,
  CallNames,
  chatMessage,
  MAX_MESSAGES,
  refuseContinuation,
  refuseSpeaker,
  TOO_MANY_MESSAGES,
  textContent,
} from '../conversation.ts';
import * as fields from '../fields.ts';
import { ANYTHING, type InertFields, inert, NO_ITEMS } from '../fields.ts';
import { calledWith, toolName } from '../tools.ts';

/** The messages of Anthropic's API: blocks of text, of thinking, of tool calls and of their results. */

/** Fields of a block of text that are not obeyed. */
export const blockInert = { cache_control: ANYTHING, citations: NO_ITEMS } as const satisfies InertFields;
/** Precedes the text of a result that is an error: templates have no other place for that. */
const ERROR = 'Error: ';

const textBlock = z.object({ type: z.literal('text'), text: z.string(), ...inert(blockInert) });

/** Thinking that came before a text or a call. */
const thinkingBlock = z.object({
  type: z.literal('thinking'),
  thinking: z.string(),
  // The signature is not checked.
  ...inert({ cache_control: ANYTHING, signature: ANYTHING }),
});

const callBlock = z.object({
  type: z.literal('tool_use'),
  id: fields.nonEmpty('id'),
  name: toolName,
  input: calledWith,
  ...inert({ cache_control: ANYTHING, caller: ANYTHING }),
});

const resultBlock = z.object({
  type: z.literal('tool_result'),
  tool_use_id: z.string(),
  content: textContent(blockInert).default(''),
  is_error: z.boolean().default(false),
  ...inert({ cache_control: ANYTHING }),
});

const TEXT_AND_CALLS = 'blocks are of the type "text", "thinking", "tool_use" or "tool_result" here';

/** A block. A block of another type is refused for its type, not for the members that it lacks. */
const block = fields.typed(
  ['text', 'thinking', 'tool_use', 'tool_result'],
  (type) => `is not supported: ${aboutImages(type)}${TEXT_AND_CALLS}`,
  z.discriminatedUnion('type', [textBlock, thinkingBlock, callBlock, resultBlock]),
  (ctx) => fields.violated(ctx, { constraint: 'required' }, 'is required', ['type']),
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
  });

/** Makes the conversation as templates see it. A user's message with tool results becomes several messages. */
export const conversation = z
  .array(message)
  .min(1, 'must have at least one message')
  .max(MAX_MESSAGES, TOO_MANY_MESSAGES)
  .superRefine(refuseContinuation)
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
  });

/**
 * Makes one message of an assistant's blocks: the texts are joined, and so is the thinking, which comes first; the calls
 * come last.
 */
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
