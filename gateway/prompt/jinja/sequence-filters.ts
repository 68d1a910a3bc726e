/** The filters for sequences. */

import { itemOf } from './attributes.ts';
import { operate } from './operators.ts';
import { passes } from './tests.ts';
import { textOf } from './text.ts';
import {
  type Arguments,
  bind,
  compare,
  isDict,
  isEqual,
  isList,
  isTrue,
  itemsOf,
  JinjaError,
  lengthOf,
  stringOf,
  Tuple,
  typeName,
  Undefined,
  type Value,
} from './values.ts';

const noItem = 'there is no item in an empty sequence';

type Bound = Record<string, Value | undefined>;

/** The table of methodsOf(). apply: runs another filter by its name. */
export function sequenceFilters(apply: (name: string, value: Value, args: Arguments) => Value) {
  return {
    length: ['', lengthOf],
    count: ['', lengthOf],
    list: ['', (value: Value) => [...itemsOf(value)]],
    first: ['', (value: Value) => endOf(itemsOf(value), 0)],
    last: ['', (value: Value) => endOf(itemsOf(value), -1)],
    reverse: ['', reversed],
    join: ['d?, attribute?', join],
    sum: ['attribute?, start?', sum],
    min: ['case_sensitive?, attribute?', (value: Value, args: Bound) => extreme(value, args, -1)],
    max: ['case_sensitive?, attribute?', (value: Value, args: Bound) => extreme(value, args, 1)],
    sort: ['reverse?, case_sensitive?, attribute?', sort],
    unique: ['case_sensitive?, attribute?', unique],
    dictsort: ['case_sensitive?, by?, reverse?', dictsort],
    batch: ['linecount, fill_with?', batch],
    map: (value: Value, args: Arguments) => map(value, args, apply),
    select: choosing('select', false, true),
    reject: choosing('reject', false, false),
    selectattr: choosing('selectattr', true, true),
    rejectattr: choosing('rejectattr', true, false),
  } as const;
}

function endOf(items: readonly Value[], index: 0 | -1): Value {
  const item = items.at(index);
  return item === undefined ? new Undefined(noItem) : item;
}

function reversed(value: Value): Value {
  const items = [...itemsOf(value)].reverse();
  return typeof value === 'string' ? items.join('') : items;
}

function join(value: Value, { d: separator = '', attribute = null }: Bound): Value {
  return itemsOf(value)
    .map((item) => textOf(partOf(item, attribute)))
    .join(textOf(separator));
}

function sum(value: Value, { attribute = null, start = 0n }: Bound): Value {
  let total = start;
  for (const item of itemsOf(value)) total = operate('+', total, partOf(item, attribute));
  return total;
}

/** sign: 1 for the largest item, -1 for the smallest. */
function extreme(
  value: Value,
  { case_sensitive: isCaseKept = false, attribute = null }: Bound,
  sign: 1 | -1,
): Value {
  const key = (item: Value) => sortKey(partOf(item, attribute), isTrue(isCaseKept));
  let found: Value | undefined;
  for (const item of itemsOf(value))
    if (found === undefined || sign * compare(key(item), key(found)) > 0) found = item;
  return found === undefined ? new Undefined(noItem) : found;
}

function sort(
  value: Value,
  { reverse = false, case_sensitive: isCaseKept = false, attribute = null }: Bound,
): Value {
  const paths = attribute === null ? [null] : textOf(attribute).split(',');
  const keyOf = (item: Value) =>
    Tuple.from(paths.map((path) => sortKey(partOf(item, path), isTrue(isCaseKept))));
  return sortedBy([...itemsOf(value)], keyOf, isTrue(reverse));
}

function unique(value: Value, { case_sensitive: isCaseKept = false, attribute = null }: Bound): Value {
  const seen: Value[] = [];
  return itemsOf(value).filter((item) => {
    const key = sortKey(partOf(item, attribute), isTrue(isCaseKept));
    if (seen.some((other) => isEqual(other, key))) return false;
    seen.push(key);
    return true;
  });
}

function dictsort(
  value: Value,
  { case_sensitive: isCaseKept = false, by = 'key', reverse = false }: Bound,
): Value {
  if (!isDict(value)) throw new JinjaError(`dictsort takes a dict, not ${typeName(value)}`);
  if (by !== 'key' && by !== 'value')
    throw new JinjaError('the argument by of dictsort must be "key" or "value"');
  const entries = Array.from(value, ([key, item]) => Tuple.from<Value>([key, item]));
  const keyOf = (entry: Value) =>
    sortKey((entry as Tuple)[by === 'key' ? 0 : 1] as Value, isTrue(isCaseKept));
  return sortedBy(entries, keyOf, isTrue(reverse));
}

/** Equal items keep their order, even in reverse. */
function sortedBy(items: Value[], keyOf: (item: Value) => Value, isReversed: boolean): Value[] {
  const keyed = items.map((item) => [keyOf(item), item] as const);
  keyed.sort(([a], [b]) => (isReversed ? compare(b, a) : compare(a, b)));
  return keyed.map(([, item]) => item);
}

function sortKey(value: Value, isCaseKept: boolean): Value {
  return typeof value === 'string' && !isCaseKept ? value.toLowerCase() : value;
}

function batch(value: Value, { linecount = null, fill_with: fill = null }: Bound): Value {
  if (typeof linecount !== 'bigint' || linecount < 1n) throw new JinjaError('batch needs a number above 0');
  const width = Number(linecount);
  const items = [...itemsOf(value)];
  const rows: Value[] = [];
  for (let i = 0; i < items.length; i += width) rows.push(items.slice(i, i + width));
  const last = rows.at(-1);
  if (fill !== null && isList(last ?? null))
    rows[rows.length - 1] = [...itemsOf(last ?? null), ...new Array(width).fill(fill)].slice(0, width);
  return rows;
}

function map(
  value: Value,
  args: Arguments,
  apply: (name: string, value: Value, args: Arguments) => Value,
): Value {
  const { positional, named } = args;
  const items = isTrue(value) ? itemsOf(value) : [];
  if (positional.length > 0) {
    const [name = null, ...rest] = positional;
    return Array.from(items, (item) =>
      apply(stringOf(name, 'the filter of map'), item, { positional: rest, named }),
    );
  }
  const { attribute = null, default: otherwise } = bind('map', args, ['attribute', 'default'], 1);
  return Array.from(items, (item) => {
    const part = partOf(item, attribute);
    return part instanceof Undefined && otherwise !== undefined ? otherwise : part;
  });
}

/**
 * A filter that keeps the items for which a test, or without a test their truth, equals `wanted`. ofAttribute: whether an
 * attribute of each item is tested, whose name is then the first argument.
 */
function choosing(name: string, ofAttribute: boolean, wanted: boolean) {
  return (value: Value, { positional, named }: Arguments): Value => {
    if (named.size > 0) throw new JinjaError(`${name} takes no named arguments`);
    const [attribute = null, ...rest] = ofAttribute ? positional : [null, ...positional];
    if (ofAttribute && attribute === null) throw new JinjaError(`${name} needs the name of an attribute`);
    const [test, ...args] = rest;
    return Array.from(isTrue(value) ? itemsOf(value) : []).filter((item) => {
      const part = partOf(item, attribute);
      const holds =
        test === undefined ? isTrue(part) : passes(stringOf(test, `the test of ${name}`), part, args);
      return holds === wanted;
    });
  };
}

/** The part of an item that an attribute names. A path such as a.b.0 is followed step by step; null names the item itself. */
function partOf(item: Value, attribute: Value): Value {
  if (attribute === null) return item;
  if (typeof attribute === 'bigint') return itemOf(item, attribute);
  let part = item;
  for (const name of stringOf(attribute, 'attribute').split('.'))
    part = itemOf(part, /^\d+$/.test(name) ? BigInt(name) : name);
  return part;
}
