import * as z from 'zod';
import type { Grammar } from '../../runner/runner.ts';
import { violated } from '../fields.ts';
import { type InertFields, inert } from '../inert.ts';
import { JSON_OBJECT, schemaGrammar } from '../schema-grammar.ts';

/** The field `text` of a response, which sets the form of its answer (docs/structured-output.md). */

export const textInert = { verbosity: ['medium'] } as const satisfies InertFields;

export interface TextFormat {
  /** Undefined: the answer may be any text. */
  readonly grammar: Grammar | undefined;
  /** The format as the response repeats it. */
  readonly described: object;
}

const PLAIN: TextFormat = { grammar: undefined, described: { type: 'text' } };

const format = z
  .strictObject({
    type: z.enum(['text', 'json_object', 'json_schema']),
    name: z.string().optional(),
    description: z.string().optional(),
    schema: z.unknown().optional(),
    strict: z.boolean().optional(),
  })
  .transform(({ type, ...described }, ctx): TextFormat => {
    if (type === 'json_schema') {
      const { name = null, description = null, schema = null, strict = false } = described;
      const grammar = schemaGrammar(ctx, 'text.format.schema', described.schema, strict);
      return { grammar, described: { type, name, description, schema, strict } };
    }
    for (const [name, value] of Object.entries(described)) {
      if (value === undefined) continue;
      const sentence = `text.format.${name} needs the type json_schema (got ${type})`;
      violated(ctx, { constraint: 'exclusive' }, sentence, [name]);
    }
    return type === 'text' ? PLAIN : { grammar: JSON_OBJECT, described: { type } };
  });

export const textField = z
  .strictObject({ format: format.optional(), ...inert(textInert) })
  .default({})
  .transform(({ format: asked }) => asked ?? PLAIN);
