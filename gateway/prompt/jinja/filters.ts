/** The filters: those of Jinja that chat templates use, with tojson as chat templates expect it. */

import { itemsOfDict } from './attributes.ts';
import { jsonOf } from './json.ts';
import { negated } from './operators.ts';
import { type Filter, plain, sequenceFilters } from './sequence-filters.ts';
import { capitalized, replaced } from './string-methods.ts';
import { strip, textOf } from './text.ts';
import {
  type Arguments,
  bind,
  intOf,
  isDict,
  isList,
  isTrue,
  JinjaError,
  numberOf,
  stringOf,
  typeName,
  Undefined,
  type Value,
} from './values.ts';

const filters: ReadonlyMap<string, Filter> = new Map<string, Filter>([
  ...sequenceFilters(applyFilter),
  ['default', otherwise],
  ['d', otherwise],
  ['string', plain('string', textOf)],
  ['safe', plain('safe', textOf)],
  ['escape', plain('escape', escaped)],
  ['e', plain('escape', escaped)],
  ['upper', plain('upper', (value) => textOf(value).toUpperCase())],
  ['lower', plain('lower', (value) => textOf(value).toLowerCase())],
  ['capitalize', plain('capitalize', (value) => capitalized(textOf(value)))],
  ['title', plain('title', (value) => title(textOf(value)))],
  ['trim', trim],
  ['replace', replace],
  ['indent', indent],
  ['tojson', toJson],
  ['items', plain('items', items)],
  ['int', toInt],
  ['float', toFloat],
  ['abs', plain('abs', absolute)],
]);

export function applyFilter(name: string, value: Value, args: Arguments): Value {
  const filter = filters.get(name);
  if (filter === undefined) throw new JinjaError(`there is no filter named ${name}`);
  return filter(value, args);
}

function otherwise(value: Value, args: Arguments): Value {
  const { default_value: replacement = '', boolean = false } = bind('default', args, [
    'default_value',
    'boolean',
  ]);
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

function trim(value: Value, args: Arguments): Value {
  const { chars = null } = bind('trim', args, ['chars']);
  return strip(textOf(value), chars === null ? null : stringOf(chars, 'chars'), 'both');
}

function replace(value: Value, args: Arguments): Value {
  const { old = null, new: by = null, count = null } = bind('replace', args, ['old', 'new', 'count'], 2);
  return replaced(textOf(value), textOf(old), textOf(by), count === null ? -1 : intOf(count, 'count'));
}

function indent(value: Value, args: Arguments): Value {
  const { width = 4n, first = false, blank = false } = bind('indent', args, ['width', 'first', 'blank']);
  const indention = typeof width === 'string' ? width : ' '.repeat(Math.max(0, intOf(width, 'width')));
  const [head = '', ...rest] = textOf(value).split(/\r\n|\r|\n/);
  const isIndented = (line: string) => isTrue(blank) || line !== '';
  const lines = rest.map((line) => (isIndented(line) ? indention + line : line));
  return [isTrue(first) ? indention + head : head, ...lines].join('\n');
}

function toJson(value: Value, args: Arguments): Value {
  const {
    ensure_ascii: isAscii = false,
    indent: width = null,
    separators = null,
    sort_keys: sortsKeys = false,
  } = bind('tojson', args, ['ensure_ascii', 'indent', 'separators', 'sort_keys']);
  const [itemSeparator, keySeparator] = isList(separators)
    ? separators.map((each) => stringOf(each, 'a separator'))
    : [width === null ? ', ' : ',', ': '];
  if (itemSeparator === undefined || keySeparator === undefined)
    throw new JinjaError('the argument separators of tojson must have two items');
  return jsonOf(value, {
    indent:
      width === null
        ? undefined
        : typeof width === 'string'
          ? width
          : ' '.repeat(Math.max(0, intOf(width, 'indent'))),
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

function toInt(value: Value, args: Arguments): Value {
  const { default: replacement = 0n } = bind('int', args, ['default']);
  const number = numberOf(value);
  if (typeof number === 'bigint') return number;
  const text = typeof value === 'string' ? strip(value, null, 'both').replace(/(\d)_(?=\d)/g, '$1') : '';
  if (/^[+-]?\d+$/.test(text)) return BigInt(text.replace(/^\+/, ''));
  const float = number ?? floatOf(text);
  return float === undefined || !Number.isFinite(float) ? replacement : BigInt(Math.trunc(float));
}

function toFloat(value: Value, args: Arguments): Value {
  const { default: replacement = 0 } = bind('float', args, ['default']);
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
