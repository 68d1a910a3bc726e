import * as z from 'zod';
import type { AnswerForm } from '../../calls/tool-offer.ts';
import type { Grammar } from '../../runner/runner.ts';
import { type Context, refuseBoth, refuseMany, violated } from '../fields.ts';
import { grammar, JSON_OBJECT, schemaGrammar } from '../schema-grammar.ts';

/**
 * Fields that define the form of an answer (docs/structured-output.md): OpenAI's response_format, and vLLM's fields for
 * it. Each becomes the grammar that a runner follows. Only the runner finds out whether a grammar compiles.
 */

const MAX_CHOICES = 1024;

function jsonField(name: string) {
  return z
    .unknown()
    .transform((value, ctx) => schemaGrammar(ctx, name, value, true))
    .optional();
}

function textField(name: string, kind: 'regex' | 'ebnf') {
  return z
    .string()
    .transform((source, ctx) => {
      if (source === '') violated(ctx, 'non_empty', `${name} must not be empty`);
      return grammar(ctx, name, { kind, source });
    })
    .optional();
}

function choiceField(name: string) {
  return z
    .array(z.string())
    .transform((choices, ctx) => {
      if (choices.length === 0 || choices.includes(''))
        violated(ctx, 'non_empty', `${name} must not be empty, and neither must a choice`);
      refuseMany(ctx, name, [choices.length, MAX_CHOICES], 'choices');
      const source = `root ::= ${choices.map(literal).join(' | ')}`;
      return grammar(ctx, name, { kind: 'ebnf', source });
    })
    .optional();
}

/** The text as an EBNF literal. */
function literal(text: string): string {
  const escaped = text.replace(/["\\]|\p{Cc}/gu, (char) =>
    char === '"' || char === '\\' ? `\\${char}` : `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
  return `"${escaped}"`;
}

const responseFormat = z
  .strictObject({
    type: z.enum(['text', 'json_object', 'json_schema']),
    json_schema: z
      .strictObject({
        name: z.string().optional(),
        description: z.string().optional(),
        schema: z.unknown(),
        strict: z.boolean().default(false),
      })
      .optional(),
    /** The schema as llama-server and others have it, beside either type. */
    schema: z.unknown().optional(),
  })
  .transform(({ type, json_schema, schema }, ctx): Grammar | undefined => {
    const name = 'response_format.json_schema';
    const refuse = (constraint: string, sentence: string, member = 'json_schema'): void =>
      violated(ctx, { constraint }, sentence, [member]);
    if (schema !== undefined && type === 'text')
      refuse(
        'exclusive',
        `response_format.schema needs the type json_object or json_schema (got ${type})`,
        'schema',
      );
    else if (schema !== undefined && json_schema !== undefined)
      refuse(
        'exclusive',
        `response_format.schema and ${name} exclude each other; send one of them`,
        'schema',
      );
    if (json_schema !== undefined && type !== 'json_schema')
      refuse('exclusive', `${name} needs the type json_schema (got ${type})`);
    if (type === 'text') return undefined;
    if (schema !== undefined) return schemaGrammar(ctx, 'response_format.schema', schema, false);
    if (type === 'json_object') return JSON_OBJECT;
    if (json_schema !== undefined)
      return schemaGrammar(ctx, `${name}.schema`, json_schema.schema, json_schema.strict);
    refuse('required', `${name} is required with the type json_schema`);
    return z.NEVER;
  })
  .optional();

const structuredOutputs = z
  .strictObject({
    json: jsonField('structured_outputs.json'),
    regex: textField('structured_outputs.regex', 'regex'),
    choice: choiceField('structured_outputs.choice'),
    grammar: textField('structured_outputs.grammar', 'ebnf'),
  })
  .transform((ways, ctx): Grammar => {
    const [first, second] = Object.entries(ways).filter(([, way]) => way !== undefined);
    if (first === undefined || second !== undefined) {
      const sentence = 'structured_outputs must have one of json, regex, choice and grammar';
      violated(ctx, 'exclusive', sentence);
      return z.NEVER;
    }
    return first[1] as Grammar;
  })
  .optional();

export const grammarFields = {
  response_format: responseFormat,
  guided_json: jsonField('guided_json'),
  guided_regex: textField('guided_regex', 'regex'),
  guided_choice: choiceField('guided_choice'),
  guided_grammar: textField('guided_grammar', 'ebnf'),
  structured_outputs: structuredOutputs,
};

type GrammarFields = z.output<z.ZodObject<typeof grammarFields>>;

const names = Object.keys(grammarFields) as (keyof GrammarFields)[];

/** What the request has of these fields; the first one has the form of the answer. */
export function formsOf(request: GrammarFields): AnswerForm[] {
  return names.flatMap((field) => {
    const grammar = request[field];
    return grammar === undefined ? [] : [{ field, grammar }];
  });
}

/** Reports a second field of this kind, and one that limits the tokens beside a form. */
export function checkGrammar(
  ctx: Context,
  request: GrammarFields & { readonly allowed_token_ids: readonly number[] },
): void {
  const [first, second] = formsOf(request);
  if (first === undefined) return;
  const excluded = [second?.field, request.allowed_token_ids.length > 0 ? 'allowed_token_ids' : undefined];
  for (const name of excluded) if (name !== undefined) refuseBoth(ctx, name, first.field);
}
