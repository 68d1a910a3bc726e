import * as z from 'zod';
import * as fields from './fields.ts';
import { type InertFields, inert } from './inert.ts';

/** The content of a message: a string, or parts of text, which are joined. */

/** partInert: fields of a part that are not obeyed. types: the types of parts that are text. */
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
