import * as z from 'zod';
import * as fields from '../fields.ts';
import { ignoredIn, inert, messageInert, partInert } from './inert-fields.ts';

/** One message of a conversation: who says it, and text. */

const TEXT_ONLY = 'is not supported: models read text here, in parts of the type "text"';
const NO_TOOLS = 'is not supported: there are no tools here';

const textPart = z.strictObject({ type: z.literal('text'), text: z.string(), ...inert(partInert) });

/** Parts of other kinds are refused for what they are, not for what they lack as a text. */
const part = z
  .unknown()
  .superRefine((value, ctx) => {
    const type = memberOf(value, 'type');
    if (typeof type === 'string' && type !== 'text')
      fields.violated(ctx, { constraint: 'unsupported' }, TEXT_ONLY, ['type']);
  })
  .pipe(textPart);

/** A string, or parts, which are read as one text. */
const content = z
  .preprocess(
    (value) => (typeof value === 'string' ? [{ type: 'text', text: value }] : value),
    z.array(part, 'must be a string or an array of {"type":"text","text":"…"} parts'),
  )
  .transform((parts) => parts.map(({ text }) => text).join(''));

const role = z
  .unknown()
  .superRefine((value, ctx) => {
    if (value === 'tool' || value === 'function')
      fields.violated(ctx, { constraint: 'unsupported' }, NO_TOOLS);
  })
  .pipe(z.enum(['system', 'developer', 'user', 'assistant']));

export const chatMessage = z
  .strictObject({ role, content: content.optional(), ...inert(messageInert) })
  .transform((message, ctx) => {
    // An answer that was sent back may have been nothing; nobody else says nothing without meaning to.
    if (message.content === undefined && message.role !== 'assistant')
      fields.violated(ctx, { constraint: 'required' }, 'is required', ['content']);
    return { role: message.role, content: message.content ?? '' };
  });

/** Names of what was sent with these messages and not looked at. */
export function ignoredInMessages(messages: unknown): string[] {
  return asList(messages).flatMap((message) => [
    ...ignoredIn(messageInert, asObject(message), 'messages.'),
    ...asList(memberOf(message, 'content')).flatMap((each) =>
      ignoredIn(partInert, asObject(each), 'messages.content.'),
    ),
  ]);
}

function asList(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

function asObject(value: unknown): object {
  return typeof value === 'object' && value !== null ? value : {};
}

function memberOf(value: unknown, name: string): unknown {
  return Object.getOwnPropertyDescriptor(asObject(value), name)?.value;
}
