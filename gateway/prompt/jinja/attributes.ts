/** The values of names, of `a.b`, `a[b]` and `a[b:c]`, and of calls. With `a.b` an attribute comes before an item of the same name, as in Jinja. */

import { requireDefined } from './operators.ts';
import { stringMethods } from './string-methods.ts';
import { repr } from './text.ts';
import {
  type Arguments,
  Attributes,
  Callable,
  type Dict,
  intOf,
  isDict,
  isEqual,
  isList,
  JinjaError,
  type Key,
  keyOf,
  type List,
  methodsOf,
  numberOf,
  Tuple,
  typeName,
  Undefined,
  type Value,
} from './values.ts';

/** Names and their values. A scope can read the names of the scopes around it, but writes only its own. */
export class Scope {
  readonly #parent: Scope | undefined;
  readonly #values = new Map<string, Value>();

  constructor(parent?: Scope, values: Iterable<readonly [string, Value]> = []) {
    this.#parent = parent;
    for (const [name, value] of values) this.set(name, value);
  }

  get(name: string): Value {
    for (let scope: Scope | undefined = this; scope !== undefined; scope = scope.#parent) {
      const value = scope.#values.get(name);
      if (value !== undefined) return value;
    }
    return new Undefined(`'${name}' is undefined`);
  }

  set(name: string, value: Value): void {
    this.#values.set(name, value);
  }
}

export function call(callee: Value, args: Arguments): Value {
  requireDefined(callee);
  if (callee instanceof Callable) return callee.call(args);
  if (callee instanceof Attributes && callee.call !== undefined) return callee.call(args);
  throw new JinjaError(`${typeName(callee)} cannot be called`);
}

const dictMethods = methodsOf<Dict>({
  get: [
    'key, default?',
    (dict, { key = null, default: otherwise = null }) => {
      const found = dict.get(keyOf(key));
      return found === undefined ? otherwise : found;
    },
  ],
  items: ['', itemsOfDict],
  keys: ['', (dict) => [...dict.keys()]],
  values: ['', (dict) => [...dict.values()]],
  copy: ['', (dict) => dict],
});

const listMethods = methodsOf<List>({
  count: ['value', (list, { value = null }) => BigInt(list.filter((item) => isEqual(item, value)).length)],
  index: [
    'value',
    (list, { value = null }) => {
      const index = list.findIndex((item) => isEqual(item, value));
      if (index === -1) throw new JinjaError(`${repr(value)} is not in the list`);
      return BigInt(index);
    },
  ],
});

/** Python's methods that change a value. Templates must not use them. */
const changing: ReadonlySet<string> = new Set(
  'append clear extend insert pop popitem remove reverse setdefault sort update'.split(' '),
);

export function itemsOfDict(dict: Dict): List {
  return Array.from(dict, ([key, value]) => Tuple.from<Value>([key, value]));
}

/** The value of `object.name`. */
export function attributeOf(object: Value, name: string): Value {
  const method = methodOf(object, name);
  if (method !== undefined) return method;
  const item = isDict(object) ? object.get(name) : undefined;
  return item === undefined ? missing(object, name) : item;
}

/** The value of `object[index]`. */
export function itemOf(object: Value, index: Value): Value {
  requireDefined(object);
  requireDefined(index);
  const item = isDict(object) && isKey(index) ? object.get(index) : elementOf(object, index);
  if (item !== undefined) return item;
  const method = typeof index === 'string' ? methodOf(object, index) : undefined;
  return method === undefined ? missing(object, index) : method;
}

function isKey(value: Value): value is Key {
  return value === null || typeof value !== 'object';
}

function elementOf(object: Value, index: Value): Value | undefined {
  const number = numberOf(index);
  if (typeof number !== 'bigint') return undefined;
  if (typeof object === 'string') return Array.from(object).at(Number(number));
  return isList(object) ? object.at(Number(number)) : undefined;
}

function methodOf(object: Value, name: string): Value | undefined {
  requireDefined(object);
  if (object instanceof Attributes) return object.values.get(name);
  const method = boundMethod(object, name);
  if (method !== undefined) return new Callable(name, method);
  if (changing.has(name) && (isDict(object) || (isList(object) && !(object instanceof Tuple))))
    throw new JinjaError(`${name} would change a ${typeName(object)}, which templates may not do`);
  return undefined;
}

function boundMethod(object: Value, name: string): ((args: Arguments) => Value) | undefined {
  if (typeof object === 'string') return bound(stringMethods.get(name), object);
  if (isDict(object)) return bound(dictMethods.get(name), object);
  return isList(object) ? bound(listMethods.get(name), object) : undefined;
}

function bound<T>(method: ((self: T, args: Arguments) => Value) | undefined, self: T) {
  return method && ((args: Arguments) => method(self, args));
}

function missing(object: Value, name: Value): Undefined {
  return new Undefined(
    `${typeName(object)} has no ${typeof name === 'string' ? `attribute ${name}` : `item ${repr(name)}`}`,
  );
}

/** The value of `object[from:to:step]`, with Python's meaning of negative and absent bounds. */
export function sliceOf(object: Value, [from, to, by]: readonly (Value | undefined)[]): Value {
  requireDefined(object);
  const items = typeof object === 'string' ? Array.from(object) : object;
  if (!isList(items)) throw new JinjaError(`${typeName(object)} has no slices`);
  const step = boundOf(by) ?? 1;
  if (step === 0) throw new JinjaError('the step of a slice is 0');
  const [low, high] = step > 0 ? [0, items.length] : [-1, items.length - 1];
  const start = clamped(boundOf(from), items.length, low, high) ?? (step > 0 ? low : high);
  const stop = clamped(boundOf(to), items.length, low, high) ?? (step > 0 ? high : low);
  const found: Value[] = [];
  for (let i = start; step > 0 ? i < stop : i > stop; i += step) found.push(items[i] as Value);
  if (typeof object === 'string') return found.join('');
  return object instanceof Tuple ? Tuple.from(found) : found;
}

function boundOf(value: Value | undefined): number | undefined {
  return value === undefined || value === null ? undefined : intOf(value, 'a bound of a slice');
}

function clamped(bound: number | undefined, length: number, low: number, high: number): number | undefined {
  if (bound === undefined) return undefined;
  return Math.min(Math.max(bound < 0 ? bound + length : bound, low), high);
}
