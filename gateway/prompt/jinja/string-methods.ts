/** The methods of Python's strings. Positions and counts are in code points, and changes of case follow Unicode. */

import { formatBraces } from './formats.ts';
import { isSpace, strip } from './text.ts';
import {
  type Arguments,
  bind,
  intOf,
  isList,
  isTrue,
  itemsOf,
  JinjaError,
  lengthOf,
  stringOf,
  Tuple,
  typeName,
  type Value,
} from './values.ts';

const lineEnds: ReadonlySet<string> = new Set('\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029');

type Method = (text: string, args: Arguments) => Value;

export const stringMethods: ReadonlyMap<string, Method> = new Map<string, Method>([
  ['strip', stripping('strip', 'both')],
  ['lstrip', stripping('lstrip', 'start')],
  ['rstrip', stripping('rstrip', 'end')],
  ['upper', plain('upper', (text) => text.toUpperCase())],
  ['lower', plain('lower', (text) => text.toLowerCase())],
  ['title', plain('title', title)],
  ['capitalize', plain('capitalize', capitalized)],
  ['isspace', plain('isspace', (text) => text !== '' && Array.from(text).every(isSpace))],
  ['isdigit', plain('isdigit', (text) => /^\p{Nd}+$/u.test(text))],
  ['isalpha', plain('isalpha', (text) => /^\p{L}+$/u.test(text))],
  ['isalnum', plain('isalnum', (text) => /^[\p{L}\p{N}]+$/u.test(text))],
  ['isupper', plain('isupper', (text) => text !== text.toLowerCase() && text === text.toUpperCase())],
  ['islower', plain('islower', (text) => text !== text.toUpperCase() && text === text.toLowerCase())],
  ['startswith', affix('startswith', (text, part) => text.startsWith(part))],
  ['endswith', affix('endswith', (text, part) => text.endsWith(part))],
  ['removeprefix', removing('removeprefix', (t, part) => (t.startsWith(part) ? t.slice(part.length) : t))],
  ['removesuffix', removing('removesuffix', withoutEnd)],
  ['split', split],
  ['rsplit', rsplit],
  ['splitlines', splitlines],
  ['partition', partition('partition', (text, separator) => text.indexOf(separator))],
  ['rpartition', partition('rpartition', (text, separator) => text.lastIndexOf(separator))],
  ['find', find('find', (text, part) => text.indexOf(part))],
  ['rfind', find('rfind', (text, part) => text.lastIndexOf(part))],
  ['count', count],
  ['replace', replace],
  ['join', join],
  ['format', formatBraces],
]);

function plain(name: string, method: (text: string) => string | boolean): Method {
  return (text, args) => {
    bind(name, args, []);
    return method(text);
  };
}

function stripping(name: string, side: 'both' | 'start' | 'end'): Method {
  return (text, args) => {
    const { chars } = bind(name, args, ['chars']);
    return strip(text, chars === undefined || chars === null ? null : stringOf(chars, 'chars'), side);
  };
}

/** A method whose argument is a part, or a tuple of parts of which one must match. */
function affix(name: string, test: (text: string, part: string) => boolean): Method {
  return (text, args) => {
    const { part = null } = bind(name, args, ['part'], 1);
    const parts = part instanceof Tuple ? [...part] : [part];
    return parts.some((each) => test(text, stringOf(each, `the argument of ${name}`)));
  };
}

function removing(name: string, remove: (text: string, part: string) => string): Method {
  return (text, args) => {
    const { part = null } = bind(name, args, ['part'], 1);
    return remove(text, stringOf(part, `the argument of ${name}`));
  };
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

function split(text: string, args: Arguments): Value {
  const { separator, limit } = splitArguments('split', args);
  if (separator === undefined) return splitWords(text, limit);
  const parts = text.split(separator);
  return parts.length - 1 <= limit ? parts : [...parts.slice(0, limit), parts.slice(limit).join(separator)];
}

function rsplit(text: string, args: Arguments): Value {
  const { separator, limit } = splitArguments('rsplit', args);
  if (separator === undefined) {
    if (limit === Number.POSITIVE_INFINITY) return splitWords(text, limit);
    throw new JinjaError('rsplit with a limit is supported only with a separator');
  }
  const parts = text.split(separator);
  const numJoined = parts.length - limit;
  return numJoined <= 1 ? parts : [parts.slice(0, numJoined).join(separator), ...parts.slice(numJoined)];
}

function splitArguments(name: string, args: Arguments): { separator: string | undefined; limit: number } {
  const { sep = null, maxsplit = -1n } = bind(name, args, ['sep', 'maxsplit']);
  const limit = intOf(maxsplit, 'maxsplit');
  const separator = sep === null ? undefined : stringOf(sep, 'sep');
  if (separator === '') throw new JinjaError(`${name} got an empty separator`);
  return { separator, limit: limit < 0 ? Number.POSITIVE_INFINITY : limit };
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

function splitlines(text: string, args: Arguments): Value {
  const { keepends = false } = bind('splitlines', args, ['keepends']);
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

function partition(
  name: 'partition' | 'rpartition',
  indexIn: (text: string, separator: string) => number,
): Method {
  return (text, args) => {
    const { sep = null } = bind(name, args, ['sep'], 1);
    const separator = stringOf(sep, 'sep');
    if (separator === '') throw new JinjaError(`${name} got an empty separator`);
    const index = indexIn(text, separator);
    if (index !== -1)
      return Tuple.from([text.slice(0, index), separator, text.slice(index + separator.length)]);
    return Tuple.from(name === 'partition' ? [text, '', ''] : ['', '', text]);
  };
}

function find(name: string, indexIn: (text: string, part: string) => number): Method {
  return (text, args) => {
    const { part = null } = bind(name, args, ['part'], 1);
    const index = indexIn(text, stringOf(part, `the argument of ${name}`));
    return index === -1 ? -1n : lengthOf(text.slice(0, index));
  };
}

function count(text: string, args: Arguments): Value {
  const { part = null } = bind('count', args, ['part'], 1);
  const wanted = stringOf(part, 'the argument of count');
  return wanted === '' ? BigInt(lengthOf(text)) + 1n : BigInt(text.split(wanted).length - 1);
}

function replace(text: string, args: Arguments): Value {
  const {
    old = null,
    new: by = null,
    count: limit = -1n,
  } = bind('replace', args, ['old', 'new', 'count'], 2);
  return replaced(text, stringOf(old, 'old'), stringOf(by, 'new'), intOf(limit, 'count'));
}

/** limit: the most replacements; a negative one replaces all. */
export function replaced(text: string, old: string, by: string, limit: number): string {
  const parts = old === '' ? ['', ...text, ''] : text.split(old);
  if (limit < 0 || limit >= parts.length - 1) return parts.join(by);
  const rest = parts.slice(limit).join(old);
  return [...parts.slice(0, limit), rest].join(by);
}

function join(text: string, args: Arguments): Value {
  const { items = null } = bind('join', args, ['items'], 1);
  if (!isList(items) && typeof items !== 'string')
    throw new JinjaError(`join does not take ${typeName(items)}`);
  return Array.from(itemsOf(items), (item) => stringOf(item, 'each item of join')).join(text);
}
