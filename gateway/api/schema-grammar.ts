import { JsonFault, parseLosslessJson } from '../json/json-parser.ts';
import { isJsonObject, jsonText } from '../json/json-values.ts';
import { type Grammar, maxGrammarBytes } from '../runner/runner.ts';
import { type Context, got, mistyped, violated } from './fields.ts';

/** Grammars of JSON Schemas that define the form of an answer or of a call (docs/structured-output.md). They forbid all that a schema does not name. */

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
  if (isJsonObject(value)) return jsonText(strict ? value : opened(value));
  if (typeof value !== 'string') {
    mistyped(ctx, name, value, `must be a JSON Schema: an object, or its text (got ${got(value, 'object')})`);
    return '';
  }
  try {
    const schema = parseLosslessJson(value);
    return strict || !isJsonObject(schema) ? value : jsonText(opened(schema));
  } catch (error) {
    if (!(error instanceof JsonFault)) throw error;
    violated(ctx, 'json', `${name} must be JSON where it is a string`);
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

export const JSON_OBJECT: Grammar = { kind: 'json_object', source: '', strict: false };

/** Members whose values are objects of named schemas. */
const maps = new Set(['properties', 'patternProperties', '$defs', 'definitions', 'dependentSchemas']);
/** Members that contain values instead of schemas. */
const values = new Set(['const', 'enum', 'default', 'example', 'examples', 'required']);
const combinations = ['$ref', 'anyOf', 'oneOf', 'allOf'];

/**
 * The schema of a tool's arguments, which are an object unless it says otherwise. Unless strict, an object that names no
 * properties may have any, and an array that does not describe its items may have any.
 */
export function argumentsSchema(parameters: object | undefined, strict: boolean): object {
  if (parameters === undefined) return { type: 'object', properties: {} };
  const isTyped = 'type' in parameters || combinations.some((name) => name in parameters);
  const schema = isTyped ? parameters : { type: 'object', ...parameters };
  return strict ? schema : (opened(schema) as object);
}

/** A copy of the schema that allows any property where an object names none, and any item where an array describes none. */
function opened(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(opened);
  if (!isJsonObject(schema)) return schema;
  return {
    ...(isOf(schema, 'object') && !('properties' in schema) ? { additionalProperties: true } : {}),
    ...(isOf(schema, 'array') && !('prefixItems' in schema) ? { items: true } : {}),
    ...mapped(schema, (member, name) => {
      if (values.has(name)) return member;
      return maps.has(name) && isJsonObject(member) ? mapped(member, opened) : opened(member);
    }),
  };
}

function mapped(object: object, made: (member: unknown, name: string) => unknown): object {
  return Object.fromEntries(Object.entries(object).map(([name, member]) => [name, made(member, name)]));
}

function isOf(schema: object, name: string): boolean {
  const type = 'type' in schema ? schema.type : undefined;
  return type === name || (Array.isArray(type) && type.includes(name));
}
