import * as z from 'zod';
import type { ChatMessage, ToolCall } from '../prompt/chat-template.ts';
import * as fields from './fields.ts';
import { type InertFields, inert, violated } from './fields.ts';

/** What the conversations of all APIs have in common. */

type Context = Pick<z.RefinementCtx, 'addIssue'>;

/** Bounds the number of messages or items: many tiny ones would cost far more than their bytes. */
export const MAX_MESSAGES = 4096;
export const TOO_MANY_MESSAGES = `must have at most ${MAX_MESSAGES} messages`;

const NO_CONTINUATION = 'the last message must not have the role "assistant": continuing it is not supported';

/** Reports a conversation that ends with an assistant's message, for APIs in which that asks to continue the message. */
export function refuseContinuation(messages: readonly { readonly role: string }[], ctx: Context): void {
  if (messages.at(-1)?.role === 'assistant') violated(ctx, { constraint: 'unsupported' }, NO_CONTINUATION);
}

/** Reports a member that only messages with the role `speaker` may have. path: from the message to the member. */
export function refuseSpeaker(ctx: Context, speaker: string, path: (string | number)[]): void {
  const sentence = `is allowed only in messages with the role ${JSON.stringify(speaker)}`;
  violated(ctx, { constraint: 'role' }, sentence, path);
}

/** A message as templates see it. */
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
  readonly #ctx: Context;
  readonly #place: string;

  /** place: what a call stands in, in the API's words. */
  constructor(ctx: Context, place: 'message' | 'item') {
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

/** The content of a message: a string, or parts of text, which are joined. partInert: fields of a part that are not obeyed. types: the types of parts that are text. */
export function textContent(
  partInert: InertFields,
  types: readonly [string, ...(readonly string[])] = ['text'],
) {
  const kinds = types.map((type) => JSON.stringify(type)).join(' or ');
  const part = fields.typed(
    types,
    (type) => `is not supported: ${aboutImages(type)}models read text here, in parts of the type ${kinds}`,
    z.object({ type: z.enum(types), text: z.string(), ...inert(partInert) }),
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
