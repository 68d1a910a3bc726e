import { isJsonObject } from '../json/json-values.ts';

/** Prepares JSON Schemas for a runner's grammar, which forbids all that a schema does not name. */

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
  return strict ? schema : describedSchema(schema);
}

/** A copy of the schema that allows any property where an object names none, and any item where an array describes none. */
export function describedSchema(schema: object): object {
  return opened(schema) as object;
}

function opened(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(opened);
  if (!isJsonObject(schema)) return schema;
  const members = Object.entries(schema).map(([name, member]) => {
    if (values.has(name)) return [name, member];
    return [name, maps.has(name) && isJsonObject(member) ? openedMembers(member) : opened(member)];
  });
  return { ...whatIsUndescribed(schema), ...Object.fromEntries(members) };
}

function openedMembers(schemas: object): object {
  return Object.fromEntries(Object.entries(schemas).map(([name, schema]) => [name, opened(schema)]));
}

function whatIsUndescribed(schema: object): object {
  return {
    ...(isOf(schema, 'object') && !('properties' in schema) ? { additionalProperties: true } : {}),
    ...(isOf(schema, 'array') && !('prefixItems' in schema) ? { items: true } : {}),
  };
}

function isOf(schema: object, name: string): boolean {
  const type = 'type' in schema ? schema.type : undefined;
  return type === name || (Array.isArray(type) && type.includes(name));
}
