/** Evaluates expressions. */
import { attributeOf, itemOf, sliceOf } from './attributes.ts';
import { applyFilter } from './filters.ts';
import type { ArgumentList, Expression, FilterUse } from './nodes.ts';
import { compareBy, negated, operate, requireDefined } from './operators.ts';
import { passes } from './tests.ts';
import {
  type Arguments,
  Attributes,
  Callable,
  isDict,
  isTrue,
  itemsOf,
  JinjaError,
  type Key,
  keyOf,
  stringOf,
  Tuple,
  typeName,
  Undefined,
  type Value,
} from './values.ts';

export function evaluate(expression: Expression, scope: Scope): Value {
  switch (expression.kind) {
    case 'constant':
      return expression.value;
    case 'name':
      return scope.get(expression.name);
    case 'list':
      return expression.items.map((item) => evaluate(item, scope));
    case 'tuple':
      return Tuple.from(expression.items, (item) => evaluate(item, scope));
    case 'dict':
      return new Map(
        expression.entries.map(([key, value]): [Key, Value] => [
          keyOf(evaluate(key, scope)),
          evaluate(value, scope),
        ]),
      );
    case 'attribute':
      return attributeOf(evaluate(expression.object, scope), expression.name);
    case 'item':
      return itemOf(evaluate(expression.object, scope), evaluate(expression.index, scope));
    case 'slice':
      return sliceOf(
        evaluate(expression.object, scope),
        expression.bounds.map((bound) => bound && evaluate(bound, scope)),
      );
    case 'call':
      return call(evaluate(expression.callee, scope), argumentsOf(expression.args, scope));
    case 'filter':
      return filtered(evaluate(expression.object, scope), expression.filter, scope);
    case 'test': {
      const { positional, named } = argumentsOf(expression.args, scope);
      if (named.size > 0) throw new JinjaError(`the test ${expression.name} takes no named arguments`);
      return passes(expression.name, evaluate(expression.object, scope), positional) !== expression.isNegated;
    }
    case 'unary': {
      const operand = evaluate(expression.operand, scope);
      return expression.operator === 'not' ? !isTrue(operand) : negated(expression.operator, operand);
    }
    case 'and': {
      const left = evaluate(expression.left, scope);
      return isTrue(left) ? evaluate(expression.right, scope) : left;
    }
    case 'or': {
      const left = evaluate(expression.left, scope);
      return isTrue(left) ? left : evaluate(expression.right, scope);
    }
    case 'binary':
      return operate(
        expression.operator,
        evaluate(expression.left, scope),
        evaluate(expression.right, scope),
      );
    case 'compare': {
      let left = evaluate(expression.first, scope);
      for (const { operator, operand } of expression.rest) {
        const right = evaluate(operand, scope);
        if (!compareBy(operator, left, right)) return false;
        left = right;
      }
      return true;
    }
    case 'conditional':
      if (isTrue(evaluate(expression.condition, scope))) return evaluate(expression.whenTrue, scope);
      return expression.whenFalse === undefined
        ? new Undefined('a condition is false and has no else')
        : evaluate(expression.whenFalse, scope);
  }
}

export function filtered(value: Value, { name, args }: FilterUse, scope: Scope): Value {
  return applyFilter(name, value, argumentsOf(args, scope));
}

export function call(callee: Value, args: Arguments): Value {
  requireDefined(callee);
  if (callee instanceof Callable) return callee.call(args);
  if (callee instanceof Attributes && callee.call !== undefined) return callee.call(args);
  throw new JinjaError(`${typeName(callee)} cannot be called`);
}

export function argumentsOf({ positional, named, spreads }: ArgumentList, scope: Scope): Arguments {
  const values = positional.map((each) => evaluate(each, scope));
  const byName = new Map(named.map(([name, value]) => [name, evaluate(value, scope)]));
  for (const { stars, value } of spreads) {
    const spread = evaluate(value, scope);
    if (stars === 1) values.push(...itemsOf(spread));
    else if (isDict(spread))
      for (const [key, item] of spread) byName.set(stringOf(key, 'a name of **'), item);
    else throw new JinjaError(`** takes a dict, not ${typeName(spread)}`);
  }
  return { positional: values, named: byName };
}

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
