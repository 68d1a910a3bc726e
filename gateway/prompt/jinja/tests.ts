/** The tests that may stand behind `is`. */

import { type Comparison, compareBy } from './operators.ts';
import {
  Callable,
  isDict,
  isEqual,
  isList,
  JinjaError,
  numberOf,
  typeName,
  Undefined,
  type Value,
} from './values.ts';

const isIterable = (value: Value): boolean =>
  typeof value === 'string' || isList(value) || isDict(value) || value instanceof Undefined;

const withoutArgument: Readonly<Record<string, (value: Value) => boolean>> = {
  defined: (value) => !(value instanceof Undefined),
  undefined: (value) => value instanceof Undefined,
  none: (value) => value === null,
  boolean: (value) => typeof value === 'boolean',
  true: (value) => value === true,
  false: (value) => value === false,
  string: (value) => typeof value === 'string',
  number: (value) => numberOf(value) !== undefined,
  integer: (value) => typeof value === 'bigint',
  float: (value) => typeof value === 'number',
  mapping: isDict,
  sequence: isIterable,
  iterable: isIterable,
  callable: (value) => value instanceof Callable,
  odd: (value) => parityOf(value) === 1n,
  even: (value) => parityOf(value) === 0n,
  lower: (value) =>
    typeof value === 'string' && value !== value.toUpperCase() && value === value.toLowerCase(),
  upper: (value) =>
    typeof value === 'string' && value !== value.toLowerCase() && value === value.toUpperCase(),
};

const comparisons: Readonly<Record<string, Comparison>> = {
  eq: '==',
  equalto: '==',
  '==': '==',
  ne: '!=',
  '!=': '!=',
  lt: '<',
  lessthan: '<',
  '<': '<',
  le: '<=',
  '<=': '<=',
  gt: '>',
  greaterthan: '>',
  '>': '>',
  ge: '>=',
  '>=': '>=',
  in: 'in',
};

type Test = (value: Value, other: Value) => boolean;

const withArgument: Readonly<Record<string, Test>> = {
  sameas: isSame,
  divisibleby: (value, other) => modulo(value, other) === 0n,
};

/** By name: each test and the number of its arguments. */
const tests: ReadonlyMap<string, readonly [Test, 0 | 1]> = new Map<string, readonly [Test, 0 | 1]>([
  ...Object.entries(withoutArgument).map(([name, test]) => [name, [test, 0]] as const),
  ...Object.entries(withArgument).map(([name, test]) => [name, [test, 1]] as const),
  ...Object.entries(comparisons).map(([name, operator]) => {
    return [name, [(value: Value, other: Value) => compareBy(operator, value, other), 1]] as const;
  }),
]);

/** Throws JinjaError for an unknown test or a wrong number of arguments. */
export function passes(name: string, value: Value, args: readonly Value[]): boolean {
  const [test, numArguments] = tests.get(name) ?? [];
  if (test === undefined) throw new JinjaError(`there is no test named ${name}`);
  if (args.length !== numArguments)
    throw new JinjaError(`the test ${name} takes ${numArguments} arguments, but got ${args.length}`);
  return test(value, args[0] ?? null);
}

function isSame(value: Value, other: Value): boolean {
  return (
    typeof value === typeof other && (typeof value === 'object' ? value === other : isEqual(value, other))
  );
}

function parityOf(value: Value): bigint {
  const rest = modulo(value, 2n);
  return rest < 0n ? rest + 2n : rest;
}

function modulo(value: Value, by: Value): bigint {
  const [a, b] = [numberOf(value), numberOf(by)];
  if (typeof a !== 'bigint' || typeof b !== 'bigint' || b === 0n)
    throw new JinjaError(`${typeName(value)} and ${typeName(by)} have no remainder`);
  return a % b;
}
