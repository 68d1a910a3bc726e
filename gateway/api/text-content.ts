import * as z from 'zod';
import * as fields from './fields.ts';
import { type InertFields, inert } from './inert.ts';

/** A message's content: a string, or parts of the type text, which are read as one text. */

const TEXT_ONLY = 'is not supported: models read text here, in parts of the type "text"';

/** partInert: what a part may have besides. */
export function textContent(partInert: InertFields) {
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
  return z
    .preprocess(
      (value) => (typeof value === 'string' ? [{ type: 'text', text: value }] : value),
      z.array(part, 'must be a string or an array of {"type":"text","text":"…"} parts'),
    )
    .transform((parts) => parts.map(({ text }) => text).join(''))
    .meta({ type: ['string', 'array'] });
}

export function asList(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

export function asObject(value: unknown): object {
  return typeof value === 'object' && value !== null ? value : {};
}

export function memberOf(value: unknown, name: string): unknown {
  return Object.getOwnPropertyDescriptor(asObject(value), name)?.value;
}
