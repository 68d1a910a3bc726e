import * as z from 'zod';
import type { ChatMessage } from '../../prompt/chat-template.ts';
import * as fields from '../fields.ts';
import { ANYTHING, type InertFields, ignoredIn, inert } from '../inert.ts';
import { asList, asObject, memberOf, textContent } from '../text-content.ts';

/** The input of a response: a text, or items, all of which are messages here. */

/** Bounds a conversation so that a body of tiny items cannot cost more than its size. */
const MAX_ITEMS = 4096;

/** Of an item: what the output of a response has, which goes back with the next question. */
export const itemInert = { id: ANYTHING, phase: ANYTHING, status: ANYTHING } as const satisfies InertFields;

/** Of a part of an item's content. */
export const partInert = {
  annotations: ANYTHING,
  logprobs: ANYTHING,
  parsed: ANYTHING,
  prompt_cache_breakpoint: ANYTHING,
} as const satisfies InertFields;

const messageItem = z.strictObject({
  type: z.literal('message').optional(),
  role: z.enum(['user', 'system', 'developer', 'assistant']),
  content: textContent(partInert, ['input_text', 'output_text']),
  ...inert(itemInert),
});

const MESSAGES_ONLY = 'is not supported: items are messages here';
const NOTHING_STORED =
  'is not supported: nothing is stored here that it could refer to; send the item itself';

/** Items of other kinds are refused for what they are, not for what they lack as a message. */
const item = z
  .unknown()
  .superRefine((value, ctx) => {
    const type = memberOf(value, 'type');
    if (typeof type !== 'string' || type === 'message') return;
    const sentence = type === 'item_reference' ? NOTHING_STORED : MESSAGES_ONLY;
    fields.violated(ctx, { constraint: 'unsupported' }, sentence, ['type']);
  })
  .pipe(messageItem);

export const inputItems = z
  .preprocess(
    (value) => (typeof value === 'string' ? [{ role: 'user', content: value }] : value),
    z
      .array(item, 'must be a string or an array of items')
      .min(1, 'must have at least one item')
      .max(MAX_ITEMS, `must have at most ${MAX_ITEMS} items`),
  )
  .transform((items) =>
    items.map(({ role, content }): ChatMessage => {
      return { role: role === 'developer' ? 'system' : role, content };
    }),
  );

/** Names of what was sent with these items and not looked at, each once. */
export function ignoredInItems(input: unknown): string[] {
  const names = asList(input).flatMap((each) => [
    ...ignoredIn(itemInert, asObject(each), 'input.'),
    ...asList(memberOf(each, 'content')).flatMap((part) =>
      ignoredIn(partInert, asObject(part), 'input.content.'),
    ),
  ]);
  return [...new Set(names)];
}
