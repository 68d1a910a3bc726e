import { asList, isJsonObject, memberOf, referredTo } from '../json/json-values.ts';

/**
 * The strict form of a tool's schema, as OpenAI defines it (Structured Outputs, "Supported schemas"): an object has all the
 * properties that it names, and no others. Not every schema has a strict form.
 */

type Schema = Readonly<Record<string, unknown>>;

/** Keywords that a strict schema may not have: more rules for objects and arrays, and combinations other than anyOf. */
const LOOSE = [
  ...['patternProperties', 'propertyNames', 'minProperties', 'maxProperties', 'unevaluatedProperties'],
  ...['dependentRequired', 'dependentSchemas', 'dependencies', 'prefixItems', 'additionalItems', 'contains'],
  ...['unevaluatedItems', 'allOf', 'oneOf', 'not', 'if', 'then', 'else', '$dynamicRef', '$recursiveRef'],
];
/** A schema must have at least one of these keywords to say what a value is. */
const TELLING = ['type', 'enum', 'const', 'anyOf', '$ref', 'properties', 'items'];
const DEFINITIONS = ['$defs', 'definitions'];
/** References to places whose schemas strictOf() makes strict too. */
const REFERENCE = /^#(\/(\$defs|definitions|properties)\/|$)/;
/** The reference to the whole schema. */
const ROOT = '#';
/** The schemas that are visited for one tool, at most: one that has many references is visited again for some of them. */
const MAX_SCHEMAS = 2 ** 16;

class NotStrict extends Error {
  override readonly name = 'NotStrict';
}

/** The strict form of a schema. Undefined if a part of the schema has none, or if no finite value would have all properties. */
export function strictSchema(schema: object): object | undefined {
  if (!isJsonObject(memberOf(schema, 'properties'))) return undefined;
  try {
    const strict = strictOf(schema);
    return hasFiniteValue(strict) ? strict : undefined;
  } catch (error) {
    if (error instanceof NotStrict) return undefined;
    throw error;
  }
}

function strictOf(value: unknown): Schema {
  if (!isJsonObject(value)) throw new NotStrict();
  const schema = value as Schema;
  const { $ref, anyOf } = schema;
  const isLoose = LOOSE.some((name) => name in schema) || !TELLING.some((name) => name in schema);
  if (isLoose || ($ref !== undefined && !REFERENCE.test(String($ref)))) throw new NotStrict();
  const definitions = DEFINITIONS.filter((name) => name in schema);
  return {
    ...schema,
    ...Object.fromEntries(definitions.map((name) => [name, eachStrict(schema[name])])),
    ...(anyOf === undefined ? {} : { anyOf: asList(anyOf).map(strictOf) }),
    ...strictObject(schema),
    ...(isOf(schema, 'array') || 'items' in schema ? { items: strictOf(schema.items) } : {}),
  };
}

function eachStrict(schemas: unknown): object {
  if (!isJsonObject(schemas)) throw new NotStrict();
  return Object.fromEntries(Object.entries(schemas).map(([name, each]) => [name, strictOf(each)]));
}

function strictObject(schema: Schema): object {
  const { properties, additionalProperties = false, required } = schema;
  if (!isOf(schema, 'object') && properties === undefined) return {};
  // additionalProperties: false would also forbid the properties that a $ref or anyOf beside it names.
  if (additionalProperties !== false || '$ref' in schema || 'anyOf' in schema) throw new NotStrict();
  const strict = eachStrict(properties);
  const names = Object.keys(strict);
  if (!asList(required).every((name) => names.includes(String(name)))) throw new NotStrict();
  return { properties: strict, required: names, additionalProperties: false };
}

function isOf({ type }: Schema, name: string): boolean {
  return type === name || asList(type).includes(name);
}

/**
 * Whether the schema has a finite value. A schema whose every value contains another value of the same schema has none.
 * References are followed from a queue, since a chain of them may be longer than the stack is deep. Throws NotStrict if more than
 * MAX_SCHEMAS are visited.
 */
function hasFiniteValue(root: Schema): boolean {
  let numLeft = MAX_SCHEMAS;
  /** References to schemas that are known to have a finite value. */
  const finite = new Set<string>();
  /** By reference: the references whose schemas may have a finite value if its schema has. */
  const waiting = new Map<string, Set<string>>();
  const queue = new Set([ROOT]);

  /** onUnknown is called with each reference that is not known to have a finite value. */
  const has = (schema: Schema, onUnknown: (reference: string) => void): boolean => {
    if (numLeft-- <= 0) throw new NotStrict();
    const { $ref, anyOf, type, properties, items, minItems = 0 } = schema;
    const reference = String($ref);
    if ($ref !== undefined && !finite.has(reference)) onUnknown(reference);
    if ($ref !== undefined) return finite.has(reference);
    const each = (schemas: readonly unknown[]) => schemas.map((one) => has(one as Schema, onUnknown));
    if (anyOf !== undefined) return each(asList(anyOf)).includes(true);
    const types = Array.isArray(type) ? type : [type];
    if (types.length > 1 && types.some((one) => one !== 'object' && one !== 'array')) return true;
    if (properties !== undefined) return !each(Object.values(properties as object)).includes(false);
    return items === undefined || Number(minItems) === 0 || has(items as Schema, onUnknown);
  };

  for (const reference of queue) {
    queue.delete(reference);
    const target = reference === ROOT ? root : referredTo(root, reference);
    const onUnknown = (other: string): void => {
      if (!waiting.has(other)) queue.add(other);
      waiting.set(other, (waiting.get(other) ?? new Set()).add(reference));
    };
    if (!isJsonObject(target) || !has(target as Schema, onUnknown)) continue;
    finite.add(reference);
    for (const other of waiting.get(reference) ?? []) if (!finite.has(other)) queue.add(other);
  }
  return finite.has(ROOT);
}
