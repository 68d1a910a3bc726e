/** The operators of expressions, as in Python. */

import { formatted } from './formats.ts';
import { textOf } from './text.ts';
import {
  compare,
  contains,
  isEqual,
  isList,
  JinjaError,
  numberOf,
  Tuple,
  typeName,
  Undefined,
  type Value,
} from './values.ts';

export type BinaryOperator = '+' | '-' | '*' | '/' | '//' | '%' | '**' | '~';
export type Comparison = '==' | '!=' | '<' | '<=' | '>' | '>=' | 'in' | 'not in';

/** The most bits that an int may have. No prompt needs more. */
const maxIntBits = 4096;

const comparisons: Readonly<Record<Comparison, (left: Value, right: Value) => boolean>> = {
  '==': isEqual,
  '!=': (left, right) => !isEqual(left, right),
  '<': (left, right) => orderOf(left, right) < 0,
  '<=': (left, right) => orderOf(left, right) <= 0,
  '>': (left, right) => orderOf(left, right) > 0,
  '>=': (left, right) => orderOf(left, right) >= 0,
  in: (left, right) => contains(right, left),
  'not in': (left, right) => !contains(right, left),
};

export function compareBy(operator: Comparison, left: Value, right: Value): boolean {
  return comparisons[operator](left, right);
}

function orderOf(left: Value, right: Value): number {
  requireDefined(left);
  requireDefined(right);
  return compare(left, right);
}

export function operate(operator: BinaryOperator, left: Value, right: Value): Value {
  if (operator === '~') return textOf(left) + textOf(right);
  requireDefined(left);
  requireDefined(right);
  if (operator === '%' && typeof left === 'string') return formatted(left, right);
  const [a, b] = [numberOf(left), numberOf(right)];
  if (a !== undefined && b !== undefined) {
    if (operator === '/') return divided(Number(a), Number(b));
    const areInts = typeof a === 'bigint' && typeof b === 'bigint';
    return areInts ? ofInts[operator](a, b) : ofFloats[operator](Number(a), Number(b));
  }
  if (operator === '+') {
    if (typeof left === 'string' && typeof right === 'string') return left + right;
    if (isList(left) && isList(right) && left instanceof Tuple === right instanceof Tuple) {
      const items = [...left, ...right];
      return left instanceof Tuple ? Tuple.from(items) : items;
    }
  }
  if (operator === '*') {
    if (typeof b === 'bigint') return repeated(left, b, right);
    if (typeof a === 'bigint') return repeated(right, a, left);
  }
  throw unsupported(operator, left, right);
}

export function negated(operator: '-' | '+', operand: Value): Value {
  requireDefined(operand);
  const number = numberOf(operand);
  if (number === undefined) throw new JinjaError(`${operator} does not take ${typeName(operand)}`);
  return operator === '-' ? -number : number;
}

export function requireDefined(value: Value): void {
  if (value instanceof Undefined) throw new JinjaError(value.reason);
}

function repeated(value: Value, times: bigint, count: Value): Value {
  const length = Math.max(0, Number(times));
  if (typeof value === 'string') return value.repeat(length);
  if (!isList(value)) throw unsupported('*', value, count);
  const items = Array.from({ length }, () => value).flat();
  return value instanceof Tuple ? Tuple.from(items) : items;
}

type Arithmetic = Exclude<BinaryOperator, '~' | '/'>;

const ofFloats: Readonly<Record<Arithmetic, (a: number, b: number) => number>> = {
  '+': (a, b) => a + b,
  '-': (a, b) => a - b,
  '*': (a, b) => a * b,
  '//': (a, b) => Math.floor(divided(a, b)),
  '%': (a, b) => {
    const rest = a - b * Math.trunc(divided(a, b));
    return rest !== 0 && rest < 0 !== b < 0 ? rest + b : rest;
  },
  '**': powered,
};

const ofInts: Readonly<Record<Arithmetic, (a: bigint, b: bigint) => Value>> = {
  '+': (a, b) => bounded(a + b),
  '-': (a, b) => bounded(a - b),
  '*': (a, b) => bounded(a * b),
  '//': (a, b) => (a - modulo(a, b)) / b,
  '%': modulo,
  '**': (a, b) => {
    if (b < 0n) return powered(Number(a), Number(b));
    const isLarge = (a > 1n || a < -1n) && BigInt(a.toString(2).length) * b > BigInt(maxIntBits);
    if (isLarge) throw tooLarge();
    return a ** b;
  },
};

/** The remainder with the sign of the divisor. */
function modulo(a: bigint, b: bigint): bigint {
  requireDivisor(b);
  const rest = a % b;
  return rest !== 0n && rest < 0n !== b < 0n ? rest + b : rest;
}

function divided(a: number, b: number): number {
  requireDivisor(b);
  return a / b;
}

function requireDivisor(value: bigint | number): void {
  if (Number(value) === 0) throw new JinjaError('division by zero');
}

function powered(a: number, b: number): number {
  const power = a ** b;
  if (Number.isFinite(power) || !Number.isFinite(a) || !Number.isFinite(b)) return power;
  throw new JinjaError(`${a} ** ${b} is not a number`);
}

function bounded(value: bigint): bigint {
  if (BigInt.asIntN(maxIntBits, value) !== value) throw tooLarge();
  return value;
}

function tooLarge(): JinjaError {
  return new JinjaError(`an int has more than ${maxIntBits} bits`);
}

function unsupported(operator: string, left: Value, right: Value): JinjaError {
  return new JinjaError(`${operator} does not take ${typeName(left)} and ${typeName(right)}`);
}
