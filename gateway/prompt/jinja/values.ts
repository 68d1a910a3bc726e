/**
 * The values of a template, with Python's types: an int is a bigint and a float is a number, so that 1 and 1.0 differ; a list
 * is an array, and a dict is a Map. No value changes after it is made, except a namespace.
 */

export type Value =
  | null
  | boolean
  | bigint
  | number
  | string
  | List
  | Dict
  | Undefined
  | Callable
  | Attributes;

export type List = readonly Value[];
export type Key = null | boolean | bigint | number | string;
export type Dict = ReadonlyMap<Key, Value>;

export class Tuple extends Array<Value> {}

/** The value of a name or an attribute that does not exist. It is false and empty, and an error where more is needed. */
export class Undefined {
  readonly reason: string;

  constructor(reason: string) {
    this.reason = reason;
  }
}

export interface Arguments {
  readonly positional: readonly Value[];
  readonly named: ReadonlyMap<string, Value>;
}

export class Callable {
  readonly name: string;
  readonly call: (args: Arguments) => Value;

  constructor(name: string, call: (args: Arguments) => Value) {
    this.name = name;
    this.call = call;
  }
}

/** A value that has only attributes: a namespace, or the state of a loop, which may be callable too. */
export class Attributes {
  readonly type: 'Namespace' | 'LoopContext';
  readonly values: Map<string, Value>;
  readonly call: Callable['call'] | undefined;

  constructor(type: Attributes['type'], values: Iterable<readonly [string, Value]>, call?: Callable['call']) {
    this.type = type;
    this.values = new Map(values);
    this.call = call;
  }
}

/** Converts a JSON value. An integral number becomes an int. */
export function fromJson(value: unknown): Value {
  if (value === undefined || value === null) return null;
  if (typeof value === 'boolean' || typeof value === 'string' || typeof value === 'bigint') return value;
  if (typeof value === 'number') return Number.isInteger(value) ? BigInt(value) : value;
  if (Array.isArray(value)) return value.map(fromJson);
  if (typeof value === 'object')
    return new Map(Object.entries(value).map(([key, each]) => [key, fromJson(each)]));
  throw new JinjaError(`a template cannot be given a ${typeof value}`);
}

export function isList(value: Value): value is List {
  return Array.isArray(value);
}

export function isDict(value: Value): value is Dict {
  return value instanceof Map;
}

/** The name of the value's type in Python. */
export function typeName(value: Value): string {
  if (value === null) return 'NoneType';
  if (typeof value === 'boolean') return 'bool';
  if (typeof value === 'bigint') return 'int';
  if (typeof value === 'number') return 'float';
  if (typeof value === 'string') return 'str';
  if (value instanceof Tuple) return 'tuple';
  if (isList(value)) return 'list';
  if (isDict(value)) return 'dict';
  if (value instanceof Undefined) return 'Undefined';
  return value instanceof Callable ? 'function' : value.type;
}

export function isTrue(value: Value): boolean {
  if (value instanceof Undefined) return false;
  if (isList(value)) return value.length > 0;
  if (isDict(value)) return value.size > 0;
  return typeof value === 'object' ? value !== null : Boolean(value);
}

/** The number of an int, a float or a bool; undefined for other types. */
export function numberOf(value: Value): bigint | number | undefined {
  if (typeof value === 'boolean') return value ? 1n : 0n;
  return typeof value === 'bigint' || typeof value === 'number' ? value : undefined;
}

/** An int, such as an index, a width or a count, as a JavaScript number. Throws JinjaError for other types. */
export function intOf(value: Value, what: string): number {
  const number = numberOf(value);
  if (typeof number === 'bigint') return Number(number);
  throw new JinjaError(`${what} must be an int, not ${typeName(value)}`);
}

export function stringOf(value: Value, what: string): string {
  if (typeof value === 'string') return value;
  throw new JinjaError(`${what} must be a str, not ${typeName(value)}`);
}

export function keyOf(value: Value): Key {
  if (value === null || typeof value !== 'object') return value;
  throw new JinjaError(`${typeName(value)} cannot be a key of a dict here`);
}

/** The items that `for` iterates over. Throws JinjaError if the value is not iterable. */
export function itemsOf(value: Value): List {
  if (isList(value)) return value;
  if (typeof value === 'string') return Array.from(value);
  if (isDict(value)) return [...value.keys()];
  if (value instanceof Undefined) return [];
  throw new JinjaError(`${typeName(value)} is not iterable`);
}

export function lengthOf(value: Value): bigint {
  if (isDict(value)) return BigInt(value.size);
  if (typeof value === 'string') return BigInt(codePoints(value));
  if (isList(value)) return BigInt(value.length);
  if (value instanceof Undefined) return 0n;
  throw new JinjaError(`${typeName(value)} has no length`);
}

function codePoints(text: string): number {
  let count = 0;
  for (const _ of text) count++;
  return count;
}

export function isEqual(left: Value, right: Value): boolean {
  const [a, b] = [numberOf(left), numberOf(right)];
  // biome-ignore lint/suspicious/noDoubleEquals: an int and a float may be equal.
  if (a !== undefined && b !== undefined) return a == b;
  if (isList(left) && isList(right)) {
    if (left instanceof Tuple !== right instanceof Tuple || left.length !== right.length) return false;
    return left.every((item, index) => isEqual(item, right[index] as Value));
  }
  if (isDict(left) && isDict(right)) {
    if (left.size !== right.size) return false;
    return [...left].every(([key, item]) => {
      const other = right.get(key);
      return other !== undefined && isEqual(item, other);
    });
  }
  if (left instanceof Undefined) return right instanceof Undefined;
  return left === right;
}

/**
 * Returns a negative number, 0 or a positive number, as `left` is less than, equal to or greater than `right`. Throws
 * JinjaError for values without an order.
 */
export function compare(left: Value, right: Value): number {
  const [a, b] = [numberOf(left), numberOf(right)];
  if (a !== undefined && b !== undefined) return a < b ? -1 : Number(a > b);
  if (typeof left === 'string' && typeof right === 'string') return compareText(left, right);
  if (isList(left) && isList(right) && left instanceof Tuple === right instanceof Tuple) {
    for (let i = 0; i < left.length && i < right.length; i++)
      if (!isEqual(left[i] as Value, right[i] as Value)) return compare(left[i] as Value, right[i] as Value);
    return left.length - right.length;
  }
  throw new JinjaError(`${typeName(left)} and ${typeName(right)} have no order`);
}

/** Compares by code points. JavaScript's own comparison is by UTF-16 units. */
function compareText(left: string, right: string): number {
  let i = 0;
  while (i < left.length && left[i] === right[i]) i++;
  if (i > 0 && /[\uDC00-\uDFFF]/.test((left[i] ?? '') + (right[i] ?? ''))) i--;
  return (left.codePointAt(i) ?? -1) - (right.codePointAt(i) ?? -1);
}

export function contains(container: Value, item: Value): boolean {
  if (typeof container === 'string') {
    return container.includes(stringOf(item, 'the left side of "in" before a str'));
  }
  if (isDict(container)) return container.has(keyOf(item));
  return itemsOf(container).some((each) => isEqual(each, item));
}

/** An error of a template, or a message that the template raises, as text for the client. */
export class JinjaError extends Error {
  override readonly name = 'JinjaError';
}

/**
 * Returns the arguments of a call by the names of the parameters; undefined for a parameter that is not given. Throws
 * JinjaError for too many arguments, for unknown names, and if one of the first `required` parameters is missing.
 */
export function bind<Name extends string>(
  what: string,
  { positional, named }: Arguments,
  parameters: readonly Name[],
  required = 0,
): { readonly [name in Name]: Value | undefined } {
  if (positional.length > parameters.length) {
    throw new JinjaError(
      `${what} takes at most ${parameters.length} arguments, but got ${positional.length}`,
    );
  }
  const bound = new Map<string, Value | undefined>(
    parameters.map((name, index) => [name, positional[index]]),
  );
  for (const [name, value] of named) {
    if (!bound.has(name)) throw new JinjaError(`${what} has no argument ${name}`);
    if (bound.get(name) !== undefined) throw new JinjaError(`${what} got its argument ${name} twice`);
    bound.set(name, value);
  }
  for (const name of parameters.slice(0, required)) {
    if (bound.get(name) === undefined) throw new JinjaError(`${what} needs its argument ${name}`);
  }
  return Object.fromEntries(bound) as { [name in Name]: Value | undefined };
}

/** A method or a filter: what it is called on, and its arguments. */
type Method<Self> = (self: Self, args: Arguments) => Value;

/** How a method is written in a table: its parameters, such as 'old, new, count?', and what it does. */
type Declared<Self> =
  | Method<Self>
  | readonly [parameters: string, run: (self: Self, args: Record<string, Value | undefined>) => Value];

/** The methods of a table by their names. A parameter with a question mark may be left out. */
export function methodsOf<Self>(
  table: Readonly<Record<string, Declared<Self>>>,
): ReadonlyMap<string, Method<Self>> {
  const methods = Object.entries(table).map(([name, declared]): [string, Method<Self>] => {
    if (typeof declared === 'function') return [name, declared];
    const [text, run] = declared;
    const written = text === '' ? [] : text.split(', ');
    const required = written.filter((each) => !each.endsWith('?')).length;
    const parameters = written.map((each) => each.replace('?', ''));
    return [name, (self, args) => run(self, bind(name, args, parameters, required))];
  });
  return new Map(methods);
}
