/** The filters: those of Jinja that chat templates use, with tojson as chat templates expect it. */

import { itemsOfDict } from './attributes.ts';
import { jsonOf } from './json.ts';
import { negated } from './operators.ts';
import { sequenceFilters } from './sequence-filters.ts';
import { capitalized, replaced } from './string-methods.ts';
import { strip, textOf } from './text.ts';
import {
  type Arguments,
  intOf,
  isDict,
  isList,
  isTrue,
  JinjaError,
  methodsOf,
  numberOf,
  stringOf,
  typeName,
  Undefined,
  type Value,
} from './values.ts';

const filters = methodsOf<Value>({
  ...sequenceFilters(applyFilter),
  default: ['default_value?, boolean?', otherwise],
  d: ['default_value?, boolean?', otherwise],
  string: ['', textOf],
  safe: ['', textOf],
  escape: ['', escaped],
  e: ['', escaped],
  upper: ['', (value) => textOf(value).toUpperCase()],
  lower: ['', (value) => textOf(value).toLowerCase()],
  capitalize: ['', (value) => capitalized(textOf(value))],
  title: ['', (value) => title(textOf(value))],
  trim: [
    'chars?',
    (value, { chars = null }) =>
      strip(textOf(value), chars === null ? null : stringOf(chars, 'chars'), 'both'),
  ],
  replace: [
    'old, new, count?',
    (value, { old = null, new: by = null, count = null }) =>
      replaced(textOf(value), textOf(old), textOf(by), count === null ? -1 : intOf(count, 'count')),
  ],
  indent: ['width?, first?, blank?', indent],
  tojson: ['ensure_ascii?, indent?, separators?, sort_keys?', toJson],
  items: ['', items],
  int: ['default?', toInt],
  float: ['default?', toFloat],
  abs: ['', absolute],
});

type Bound = Record<string, Value | undefined>;

export function applyFilter(name: string, value: Value, args: Arguments): Value {
  const filter = filters.get(name);
  if (filter === undefined) throw new JinjaError(`there is no filter named ${name}`);
  return filter(value, args);
}

function otherwise(value: Value, { default_value: replacement = '', boolean = false }: Bound): Value {
  return value instanceof Undefined || (isTrue(boolean) && !isTrue(value)) ? replacement : value;
}

/** Capitalizes each word. Words begin behind white space, hyphens and opening brackets. */
function title(text: string): string {
  return text.replace(/[^-\s({[<]+/gu, capitalized);
}

const entities: ReadonlyMap<string, string> = new Map([
  ['&', '&amp;'],
  ['<', '&lt;'],
  ['>', '&gt;'],
  ['"', '&#34;'],
  ["'", '&#39;'],
]);

function escaped(value: Value): Value {
  return textOf(value).replace(/[&<>"']/g, (character) => entities.get(character) ?? character);
}

function indent(value: Value, { width = 4n, first = false, blank = false }: Bound): Value {
  const indention = indentionOf(width, 'width');
  const [head = '', ...rest] = textOf(value).split(/\r\n|\r|\n/);
  const isIndented = (line: string) => isTrue(blank) || line !== '';
  const lines = rest.map((line) => (isIndented(line) ? indention + line : line));
  return [isTrue(first) ? indention + head : head, ...lines].join('\n');
}

/** A width in spaces, or the text itself. */
function indentionOf(width: Value, what: string): string {
  return typeof width === 'string' ? width : ' '.repeat(Math.max(0, intOf(width, what)));
}

function toJson(
  value: Value,
  {
    ensure_ascii: isAscii = false,
    indent: width = null,
    separators = null,
    sort_keys: sortsKeys = false,
  }: Bound,
): Value {
  const [itemSeparator, keySeparator] = isList(separators)
    ? separators.map((each) => stringOf(each, 'a separator'))
    : [width === null ? ', ' : ',', ': '];
  if (itemSeparator === undefined || keySeparator === undefined)
    throw new JinjaError('the argument separators of tojson must have two items');
  return jsonOf(value, {
    indent: width === null ? undefined : indentionOf(width, 'indent'),
    itemSeparator,
    keySeparator,
    sortsKeys: isTrue(sortsKeys),
    isAscii: isTrue(isAscii),
  });
}

function items(value: Value): Value {
  if (value instanceof Undefined) return [];
  if (!isDict(value)) throw new JinjaError(`items takes a dict, not ${typeName(value)}`);
  return itemsOfDict(value);
}

function toInt(value: Value, { default: replacement = 0n }: Bound): Value {
  const number = numberOf(value);
  if (typeof number === 'bigint') return number;
  const text = typeof value === 'string' ? strip(value, null, 'both').replace(/(\d)_(?=\d)/g, '$1') : '';
  if (/^[+-]?\d+$/.test(text)) return BigInt(text.replace(/^\+/, ''));
  const float = number ?? floatOf(text);
  return float === undefined || !Number.isFinite(float) ? replacement : BigInt(Math.trunc(float));
}

function toFloat(value: Value, { default: replacement = 0 }: Bound): Value {
  const number = numberOf(value);
  if (number !== undefined) return Number(number);
  const float = typeof value === 'string' ? floatOf(strip(value, null, 'both')) : undefined;
  return float ?? replacement;
}

function floatOf(text: string): number | undefined {
  return /^[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?$/i.test(text) ? Number(text) : undefined;
}

function absolute(value: Value): Value {
  const number = numberOf(value);
  if (number === undefined) throw new JinjaError(`abs does not take ${typeName(value)}`);
  return number < 0 ? negated('-', number) : number;
}
