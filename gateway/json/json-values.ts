/** Checks of values that were read from JSON, access to the members of values of unknown type, and their JSON text. */

export function isJsonObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The type, by the names of JSON Schema; every number is a `number`, also a whole one. */
export function jsonTypeOf(value: unknown): string {
  if (value === null) return 'null';
  return Array.isArray(value) ? 'array' : typeof value;
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

/** The target of a $ref in a JSON Schema: `#` with a JSON Pointer (RFC 6901). Undefined if root has no such place. */
export function referredTo(root: object, reference: string): unknown {
  if (!reference.startsWith('#')) return undefined;
  const names = reference.slice(1).split('/').slice(1);
  const plain = names.map((name) => name.replaceAll('~1', '/').replaceAll('~0', '~'));
  return plain.reduce<unknown>(
    (found, name) => (isJsonObject(found) ? memberOf(found, name) : undefined),
    root,
  );
}

/** The value without members that are null, at every depth. */
export function withoutAnyNulls(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map(withoutAnyNulls);
  const present = Object.entries(value).filter(([, member]) => member !== null);
  return Object.fromEntries(present.map(([name, member]) => [name, withoutAnyNulls(member)]));
}

export const JSON_TYPE = 'application/json';

/** JSON text that stands for a value inside another value. */
export class RawJson {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

/**
 * The value, as json-parser.ts reads it, as JSON; a 64-bit integer has all its digits. Undefined members are left out. Members have JavaScript's order: names
 * that are whole numbers come first.
 */
export function jsonText(value: unknown): string {
  if (value instanceof RawJson) return value.text;
  if (typeof value === 'bigint') return String(value);
  // The parser read a number beyond a double's range as infinity. 1e999 is read as infinity again.
  if (value === Number.POSITIVE_INFINITY) return '1e999';
  if (value === Number.NEGATIVE_INFINITY) return '-1e999';
  if (Array.isArray(value)) return `[${value.map(jsonText).join(',')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  const members = Object.entries(value).flatMap(([name, member]) =>
    member === undefined ? [] : [`${JSON.stringify(name)}:${jsonText(member)}`],
  );
  return `{${members.join(',')}}`;
}
