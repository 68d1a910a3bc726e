/** The JSON Schema of a tool's arguments, as a runner's grammar takes it: there, what a schema does not name is not allowed. */

/** Members that have schemas by name. */
const maps = new Set(['properties', 'patternProperties', '$defs', 'definitions', 'dependentSchemas']);
/** Members that are values, and not schemas. */
const values = new Set(['const', 'enum', 'default', 'example', 'examples', 'required']);
const combinations = ['$ref', 'anyOf', 'oneOf', 'allOf'];

/**
 * Arguments are an object, if the schema does not say otherwise. Unless strict, an object none of whose properties are named may
 * have any, and an array whose items are not described may have any.
 */
export function argumentsSchema(parameters: object | undefined, strict: boolean): object {
  if (parameters === undefined) return { type: 'object', properties: {} };
  const isTyped = 'type' in parameters || combinations.some((name) => name in parameters);
  const schema = isTyped ? parameters : { type: 'object', ...parameters };
  return strict ? schema : (opened(schema) as object);
}

function opened(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(opened);
  if (!isObject(schema)) return schema;
  const members = Object.entries(schema).map(([name, member]) => {
    if (values.has(name)) return [name, member];
    return [name, maps.has(name) && isObject(member) ? openedMembers(member) : opened(member)];
  });
  return { ...whatIsLeftOpen(schema), ...Object.fromEntries(members) };
}

function openedMembers(schemas: object): object {
  return Object.fromEntries(Object.entries(schemas).map(([name, schema]) => [name, opened(schema)]));
}

function whatIsLeftOpen(schema: object): object {
  const type = 'type' in schema ? schema.type : undefined;
  const is = (name: string) => type === name || (Array.isArray(type) && type.includes(name));
  return {
    ...(is('object') && !('properties' in schema) ? { additionalProperties: true } : {}),
    ...(is('array') && !('prefixItems' in schema) ? { items: true } : {}),
  };
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
