/** The methods of Python's strings. Positions and counts are in code points, and changes of case follow Unicode. */

import { formatBraces } from './formats.ts';
import { isSpace, strip } from './text.ts';
import {
  intOf,
  isList,
  isTrue,
  itemsOf,
  JinjaError,
  lengthOf,
  methodsOf,
  stringOf,
  Tuple,
  typeName,
  type Value,
} from './values.ts';

const lineEnds: ReadonlySet<string> = new Set('\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029');

export const stringMethods = methodsOf<string>({
  strip: ['chars?', (text, { chars = null }) => stripped(text, chars, 'both')],
  lstrip: ['chars?', (text, { chars = null }) => stripped(text, chars, 'start')],
  rstrip: ['chars?', (text, { chars = null }) => stripped(text, chars, 'end')],
  upper: ['', (text) => text.toUpperCase()],
  lower: ['', (text) => text.toLowerCase()],
  title: ['', title],
  capitalize: ['', capitalized],
  isspace: ['', (text) => text !== '' && Array.from(text).every(isSpace)],
  isdigit: ['', (text) => /^\p{Nd}+$/u.test(text)],
  isalpha: ['', (text) => /^\p{L}+$/u.test(text)],
  isalnum: ['', (text) => /^[\p{L}\p{N}]+$/u.test(text)],
  isupper: ['', (text) => text !== text.toLowerCase() && text === text.toUpperCase()],
  islower: ['', (text) => text !== text.toUpperCase() && text === text.toLowerCase()],
  startswith: ['part', (text, { part = null }) => partsOf(part).some((each) => text.startsWith(each))],
  endswith: ['part', (text, { part = null }) => partsOf(part).some((each) => text.endsWith(each))],
  removeprefix: ['part', (text, { part = null }) => withoutStart(text, partOf(part))],
  removesuffix: ['part', (text, { part = null }) => withoutEnd(text, partOf(part))],
  split: ['sep?, maxsplit?', split],
  rsplit: ['sep?, maxsplit?', rsplit],
  splitlines: ['keepends?', splitlines],
  partition: [
    'sep',
    (text, { sep = null }) => {
      const separator = separatorOf(sep);
      return partsAround(text, text.indexOf(separator), separator) ?? Tuple.from([text, '', '']);
    },
  ],
  rpartition: [
    'sep',
    (text, { sep = null }) => {
      const separator = separatorOf(sep);
      return partsAround(text, text.lastIndexOf(separator), separator) ?? Tuple.from(['', '', text]);
    },
  ],
  find: ['part', (text, { part = null }) => position(text, text.indexOf(partOf(part)))],
  rfind: ['part', (text, { part = null }) => position(text, text.lastIndexOf(partOf(part)))],
  count: ['part', (text, { part = null }) => count(text, partOf(part))],
  replace: [
    'old, new, count?',
    (text, { old = null, new: by = null, count: limit = -1n }) =>
      replaced(text, stringOf(old, 'old'), stringOf(by, 'new'), intOf(limit, 'count')),
  ],
  join: ['items', join],
  format: formatBraces,
});

type Bound = Record<string, Value | undefined>;

function stripped(text: string, chars: Value, side: 'both' | 'start' | 'end'): string {
  return strip(text, chars === null ? null : stringOf(chars, 'chars'), side);
}

function partOf(part: Value): string {
  return stringOf(part, 'part');
}

/** One part, or a tuple of parts of which one must match. */
function partsOf(part: Value): string[] {
  return (part instanceof Tuple ? [...part] : [part]).map(partOf);
}

function withoutStart(text: string, part: string): string {
  return text.startsWith(part) ? text.slice(part.length) : text;
}

function withoutEnd(text: string, part: string): string {
  return part !== '' && text.endsWith(part) ? text.slice(0, -part.length) : text;
}

/** Capitalizes each word. Words begin behind every character that is not a letter. */
function title(text: string): string {
  return text.replace(/\p{L}+/gu, capitalized);
}

export function capitalized(text: string): string {
  const [first = ''] = text;
  return first.toUpperCase() + text.slice(first.length).toLowerCase();
}

function split(text: string, args: Bound): Value {
  const { separator, limit } = splitArguments(args);
  if (separator === undefined) return splitWords(text, limit);
  const parts = text.split(separator);
  return parts.length - 1 <= limit ? parts : [...parts.slice(0, limit), parts.slice(limit).join(separator)];
}

function rsplit(text: string, args: Bound): Value {
  const { separator, limit } = splitArguments(args);
  if (separator === undefined) {
    if (limit === Number.POSITIVE_INFINITY) return splitWords(text, limit);
    throw new JinjaError('rsplit with a limit is supported only with a separator');
  }
  const parts = text.split(separator);
  const numJoined = parts.length - limit;
  return numJoined <= 1 ? parts : [parts.slice(0, numJoined).join(separator), ...parts.slice(numJoined)];
}

function splitArguments({ sep = null, maxsplit = -1n }: Bound) {
  const limit = intOf(maxsplit, 'maxsplit');
  const separator = sep === null ? undefined : separatorOf(sep);
  return { separator, limit: limit < 0 ? Number.POSITIVE_INFINITY : limit };
}

function separatorOf(sep: Value): string {
  const separator = stringOf(sep, 'sep');
  if (separator === '') throw new JinjaError('a separator is empty');
  return separator;
}

/** Splits at runs of white space. The rest behind the limit keeps its white space, except at its beginning. */
function splitWords(text: string, limit: number): string[] {
  const words: string[] = [];
  let at = 0;
  for (;;) {
    while (at < text.length && isSpace(text[at] as string)) at++;
    if (at === text.length) return words;
    if (words.length >= limit) return [...words, text.slice(at)];
    const start = at;
    while (at < text.length && !isSpace(text[at] as string)) at++;
    words.push(text.slice(start, at));
  }
}

function splitlines(text: string, { keepends = false }: Bound): Value {
  const lines: string[] = [];
  for (let start = 0; start < text.length; ) {
    let end = start;
    while (end < text.length && !lineEnds.has(text[end] as string)) end++;
    const next = text.startsWith('\r\n', end) ? end + 2 : Math.min(end + 1, text.length);
    lines.push(text.slice(start, isTrue(keepends) ? next : end));
    start = next;
  }
  return lines;
}

/** Undefined if the index is -1. */
function partsAround(text: string, index: number, separator: string): Tuple | undefined {
  if (index === -1) return undefined;
  return Tuple.from([text.slice(0, index), separator, text.slice(index + separator.length)]) as Tuple;
}

/** An index as Python counts it, in code points. */
function position(text: string, index: number): bigint {
  return index === -1 ? -1n : lengthOf(text.slice(0, index));
}

function count(text: string, part: string): bigint {
  return part === '' ? lengthOf(text) + 1n : BigInt(text.split(part).length - 1);
}

/** limit: the most replacements; a negative one replaces all. */
export function replaced(text: string, old: string, by: string, limit: number): string {
  const parts = old === '' ? ['', ...text, ''] : text.split(old);
  if (limit < 0 || limit >= parts.length - 1) return parts.join(by);
  const rest = parts.slice(limit).join(old);
  return [...parts.slice(0, limit), rest].join(by);
}

function join(text: string, { items = null }: Bound): Value {
  if (!isList(items) && typeof items !== 'string')
    throw new JinjaError(`join does not take ${typeName(items)}`);
  return Array.from(itemsOf(items), (item) => stringOf(item, 'each item of join')).join(text);
}
