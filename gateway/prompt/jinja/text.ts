/** Values as text, like str and repr in Python. */
import { Callable, type Dict, isDict, isList, JinjaError, Tuple, Undefined, type Value } from './values.ts';

export function textOf(value: Value): string {
  if (typeof value === 'string') return value;
  return value instanceof Undefined ? '' : repr(value);
}

export function repr(value: Value): string {
  if (value === null) return 'None';
  if (typeof value === 'string') return quoted(value);
  if (typeof value === 'boolean') return value ? 'True' : 'False';
  if (typeof value === 'bigint') return value.toString();
  if (typeof value === 'number') return floatText(value);
  if (value instanceof Tuple) return `(${value.map(repr).join(', ')}${value.length === 1 ? ',' : ''})`;
  if (isList(value)) return `[${value.map(repr).join(', ')}]`;
  if (isDict(value)) return dictText(value);
  if (value instanceof Undefined) return 'Undefined';
  const type = value instanceof Callable ? 'function' : value.type;
  throw new JinjaError(`a ${type} cannot be printed`);
}

function dictText(value: Dict): string {
  return `{${Array.from(value, ([key, item]) => `${repr(key)}: ${repr(item)}`).join(', ')}}`;
}

/** The shortest digits that read as the same number, in Python's notation. */
export function floatText(value: number): string {
  if (Number.isNaN(value)) return 'nan';
  if (!Number.isFinite(value)) return value > 0 ? 'inf' : '-inf';
  if (Object.is(value, -0)) return '-0.0';
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-4 || size >= 1e16)) {
    const [digits, exponent = ''] = value.toExponential().split('e');
    return `${digits}e${exponent[0]}${exponent.slice(1).padStart(2, '0')}`;
  }
  const text = value.toString();
  return text.includes('.') ? text : `${text}.0`;
}

function quoted(text: string): string {
  const quote = text.includes("'") && !text.includes('"') ? '"' : "'";
  let out = quote;
  for (const character of text) {
    if (character === quote || character === '\\') out += `\\${character}`;
    else if (character === '\n') out += '\\n';
    else if (character === '\r') out += '\\r';
    else if (character === '\t') out += '\\t';
    else if (character === ' ' || !/[\p{C}\p{Z}]/u.test(character)) out += character;
    else out += escaped(character.codePointAt(0) as number);
  }
  return out + quote;
}

function escaped(code: number): string {
  const hex = code.toString(16);
  if (code < 0x100) return `\\x${hex.padStart(2, '0')}`;
  return code < 0x10000 ? `\\u${hex.padStart(4, '0')}` : `\\U${hex.padStart(8, '0')}`;
}

/** The characters for which str.isspace of Python 3 is true. All of them are in the Basic Multilingual Plane. */
const pythonSpace =
  '\t\n\v\f\r\x1c\x1d\x1e\x1f \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a' +
  '\u2028\u2029\u202f\u205f\u3000';
const spaces: ReadonlySet<string> = new Set(pythonSpace);

/** `\s` of Python's regular expressions as a character class of JavaScript. */
export const spaceClass = `[${pythonSpace}]`;

/** chars: the set of characters to strip; null for white space. */
export function strip(text: string, chars: string | null, side: 'both' | 'start' | 'end'): string {
  const set = chars === null ? spaces : new Set(chars);
  let start = 0;
  let end = text.length;
  while (side !== 'end' && start < end) {
    const first = String.fromCodePoint(text.codePointAt(start) as number);
    if (!set.has(first)) break;
    start += first.length;
  }
  while (side !== 'start' && end > start) {
    // The last two units hold the last character, perhaps with a unit of the one before.
    const last = Array.from(text.slice(Math.max(start, end - 2), end)).at(-1) as string;
    if (!set.has(last)) break;
    end -= last.length;
  }
  return text.slice(start, end);
}

export function isSpace(character: string): boolean {
  return spaces.has(character);
}
