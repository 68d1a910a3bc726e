import type * as z from 'zod';
import { JsonFault, parseLosslessJson } from '../json/json-parser.ts';
import { jsonText } from '../json/json-text.ts';
import { isJsonObject } from '../json/json-values.ts';
import { type Grammar, maxGrammarBytes } from '../runner/runner.ts';
import { got } from './field-errors.ts';
import { violated } from './fields.ts';
import { describedSchema } from './tool-schema.ts';

/** The grammars of fields that define the form of an answer, in all APIs (docs/structured-output.md). */

type Context = Pick<z.RefinementCtx, 'addIssue'>;

/** Makes the grammar; reports a source that is too long. */
export function grammar(
  ctx: Context,
  name: string,
  parts: Omit<Grammar, 'strict'> & { strict?: boolean },
): Grammar {
  const numBytes = Buffer.byteLength(parts.source);
  if (numBytes > maxGrammarBytes) {
    const rule = { constraint: `max_bytes(${maxGrammarBytes})`, value: String(numBytes) };
    violated(ctx, rule, `${name} must have at most ${maxGrammarBytes} bytes as a grammar (got ${numBytes})`);
  }
  return { strict: false, ...parts };
}

/** The text of a JSON Schema that was sent as an object, or as its text. strict: see schemaGrammar. */
function schemaText(ctx: Context, name: string, value: unknown, strict: boolean): string {
  if (isJsonObject(value)) return jsonText(strict ? value : describedSchema(value));
  if (typeof value !== 'string') {
    const constraint = value === undefined ? 'required' : 'type';
    const sentence =
      value === undefined
        ? `${name} is required`
        : `${name} must be a JSON Schema: an object, or its text (got ${got(value, 'object')})`;
    violated(ctx, { constraint }, sentence);
    return '';
  }
  try {
    const schema = parseLosslessJson(value);
    return strict || !isJsonObject(schema) ? value : jsonText(describedSchema(schema));
  } catch (error) {
    if (!(error instanceof JsonFault)) throw error;
    violated(ctx, { constraint: 'json' }, `${name} must be JSON where it is a string`);
    return '';
  }
}

/**
 * The grammar of a JSON Schema, which allows no members that an object does not name. Unless strict, an object that names
 * none may have any, and so may an array that describes no items.
 */
export function schemaGrammar(ctx: Context, name: string, schema: unknown, strict: boolean): Grammar {
  return grammar(ctx, name, {
    kind: 'json_schema',
    source: schemaText(ctx, name, schema, strict),
    strict: true,
  });
}

/** The grammar of any JSON object. */
export const JSON_OBJECT: Grammar = { kind: 'json_object', source: '', strict: false };
