import * as z from 'zod';
import { schemaGrammar } from '../openai/grammar-fields.ts';

/** The field that says what form an answer has, and with how much effort the model thinks (docs/thinking.md). */

/** In this field, null is a value like any other. */
export const verbatimFormat = 'output_config.format.schema';

const format = z
  .strictObject({ type: z.literal('json_schema'), schema: z.unknown() })
  .transform(({ schema }, ctx) => schemaGrammar(ctx, verbatimFormat, schema, false));

export const outputConfig = z
  .strictObject({
    effort: z.enum(['low', 'medium', 'high', 'xhigh', 'max']).optional(),
    format: format.optional(),
  })
  .default({});
