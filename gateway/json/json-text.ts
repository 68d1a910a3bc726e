/** Writes JSON of what json-parser.ts has read. A bigint is written with all its digits. */

export const JSON_TYPE = 'application/json';

/** JSON text that stands for a value inside another value. */
export class RawJson {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

/**
 * The value as JSON; a 64-bit integer has all its digits. Undefined members are left out. Members have JavaScript's order: names
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
