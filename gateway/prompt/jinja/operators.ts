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

export function compareBy(operator: Comparison, left: Value, right: Value): boolean {
  switch (operator) {
    case '==':
      return isEqual(left, right);
    case '!=':
      return !isEqual(left, right);
    case 'in':
      return contains(right, left);
    case 'not in':
      return !contains(right, left);
  }
  requireDefined(left);
  requireDefined(right);
  const order = compare(left, right);
  switch (operator) {
    case '<':
      return order < 0;
    case '<=':
      return order <= 0;
    case '>':
      return order > 0;
    case '>=':
      return order >= 0;
  }
}

export function operate(operator: BinaryOperator, left: Value, right: Value): Value {
  if (operator === '~') return textOf(left) + textOf(right);
  requireDefined(left);
  requireDefined(right);
  if (operator === '%' && typeof left === 'string') return formatted(left, right);
  const [a, b] = [numberOf(left), numberOf(right)];
  if (a !== undefined && b !== undefined) return calculate(operator, a, b);
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

function calculate(operator: BinaryOperator, a: bigint | number, b: bigint | number): Value {
  if (operator === '/') return divided(Number(a), Number(b));
  if (typeof a === 'bigint' && typeof b === 'bigint') return calculateInts(operator, a, b);
  const [x, y] = [Number(a), Number(b)];
  switch (operator) {
    case '+':
      return x + y;
    case '-':
      return x - y;
    case '*':
      return x * y;
    case '//':
      return Math.floor(divided(x, y));
    case '%': {
      const rest = x - y * Math.trunc(divided(x, y));
      return rest !== 0 && rest < 0 !== y < 0 ? rest + y : rest;
    }
    default:
      return powered(x, y);
  }
}

function calculateInts(operator: BinaryOperator, a: bigint, b: bigint): Value {
  switch (operator) {
    case '+':
      return bounded(a + b);
    case '-':
      return bounded(a - b);
    case '*':
      return bounded(a * b);
    case '//':
      requireDivisor(b);
      return (a - modulo(a, b)) / b;
    case '%':
      requireDivisor(b);
      return modulo(a, b);
    default:
      if (b < 0n) return powered(Number(a), Number(b));
      if (a > 1n || a < -1n) {
        if (BigInt(a.toString(2).length) * b > BigInt(maxIntBits)) throw tooLarge();
      }
      return a ** b;
  }
}

/** The remainder with the sign of the divisor. */
function modulo(a: bigint, b: bigint): bigint {
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
