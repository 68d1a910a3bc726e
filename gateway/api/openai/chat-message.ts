import * as z from 'zod';
import * as fields from '../fields.ts';
import { ignoredIn, inert } from '../inert.ts';
import { asList, asObject, memberOf, textContent } from '../text-content.ts';
import { messageInert, partInert } from './inert-fields.ts';

/** One message of a conversation: who says it, and text. */

const NO_TOOLS = 'is not supported: there are no tools here';

const role = z
  .unknown()
  .superRefine((value, ctx) => {
    if (value === 'tool' || value === 'function')
      fields.violated(ctx, { constraint: 'unsupported' }, NO_TOOLS);
  })
  .pipe(z.enum(['system', 'developer', 'user', 'assistant']));

export const chatMessage = z
  .strictObject({ role, content: textContent(partInert).optional(), ...inert(messageInert) })
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
