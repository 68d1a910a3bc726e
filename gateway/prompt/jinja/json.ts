/** Writes JSON like Python's json.dumps with ensure_ascii=False, which chat templates expect of the filter tojson. */

import { compareBy } from './operators.ts';
import { floatText, textOf } from './text.ts';
import { type Dict, isDict, isList, JinjaError, type Key, typeName, type Value } from './values.ts';

interface JsonStyle {
  /** The indentation of one level; undefined writes everything in one line. */
  readonly indent: string | undefined;
  readonly itemSeparator: string;
  readonly keySeparator: string;
  readonly sortsKeys: boolean;
  readonly isAscii: boolean;
}

/** JSON in one line, with a space after each comma and colon. */
export function oneLine(value: Value): string {
  return jsonOf(value, {
    indent: undefined,
    itemSeparator: ', ',
    keySeparator: ': ',
    sortsKeys: false,
    isAscii: false,
  });
}

export function jsonOf(value: Value, style: JsonStyle, level = 0): string {
  if (value === null) return 'null';
  if (typeof value === 'boolean') return String(value);
  if (typeof value === 'bigint') return value.toString();
  if (typeof value === 'number') return numberText(value);
  if (typeof value === 'string') return stringText(value, style);
  if (isList(value)) {
    const items = Array.from(value, (item) => jsonOf(item, style, level + 1));
    return enclosed('[', items, ']', style, level);
  }
  if (isDict(value)) {
    const items = entriesOf(value, style).map(
      ([key, item]) => stringText(keyText(key), style) + style.keySeparator + jsonOf(item, style, level + 1),
    );
    return enclosed('{', items, '}', style, level);
  }
  throw new JinjaError(`${typeName(value)} cannot be written as JSON`);
}

function entriesOf(dict: Dict, { sortsKeys }: JsonStyle): (readonly [Key, Value])[] {
  const entries = [...dict];
  return sortsKeys ? entries.sort(([a], [b]) => (compareBy('<', a, b) ? -1 : 1)) : entries;
}

function enclosed(open: string, items: string[], close: string, style: JsonStyle, level: number): string {
  if (items.length === 0 || style.indent === undefined) return open + items.join(style.itemSeparator) + close;
  const newline = `\n${style.indent.repeat(level)}`;
  const inner = newline + style.indent;
  return open + inner + items.join(style.itemSeparator + inner) + newline + close;
}

function keyText(key: Key): string {
  return typeof key === 'string'
    ? key
    : key === null
      ? 'null'
      : typeof key === 'boolean'
        ? String(key)
        : textOf(key);
}

function numberText(value: number): string {
  if (Number.isNaN(value)) return 'NaN';
  return Number.isFinite(value) ? floatText(value) : value > 0 ? 'Infinity' : '-Infinity';
}

function stringText(text: string, { isAscii }: JsonStyle): string {
  const json = JSON.stringify(text);
  if (!isAscii) return json;
  return json.replace(/[^ -~]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);
}
