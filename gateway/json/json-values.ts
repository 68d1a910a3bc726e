/** Checks of values that were read from JSON, and access to the members of values of unknown type. */

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
