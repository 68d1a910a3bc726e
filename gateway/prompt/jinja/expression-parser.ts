/**
 * Parses expressions with Jinja's precedence, into functions that compute them. The methods are ordered from the operators that
 * bind least to those that bind most.
 */
import { attributeOf, call, itemOf, type Scope, sliceOf } from './attributes.ts';
import { applyFilter } from './filters.ts';
import { type BinaryOperator, type Comparison, compareBy, negated, operate } from './operators.ts';
import { passes } from './tests.ts';
import { TokenReader } from './token-reader.ts';
import {
  type Arguments,
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

const constants: ReadonlyMap<string, null | boolean> = new Map([
  ['true', true],
  ['True', true],
  ['false', false],
  ['False', false],
  ['none', null],
  ['None', null],
]);
const comparisons: readonly string[] = ['==', '!=', '<', '<=', '>', '>='];
/** Names that cannot begin the argument of a test. */
const afterTest: readonly string[] = ['else', 'or', 'and', 'if', 'not', 'in'];
/** Names of Jinja that are refused here, since they would otherwise be undefined and fail later with a less clear message. */
const unsupported: readonly string[] = ['varargs', 'kwargs', 'self', 'super', 'joiner', 'cycler', 'lipsum'];
/** Filters whose text is safe: text that is added to it is escaped. */
const safeFilters: readonly string[] = ['safe', 'escape', 'e'];

export interface Expression {
  readonly value: (scope: Scope) => Value;
  /** Its parts, if it is a call. */
  readonly call?: { readonly callee: Expression; readonly args: ArgumentList };
  /** Whether its text is marked as safe. */
  readonly isSafe?: boolean;
}

type ArgumentList = (scope: Scope) => Arguments;

/** A filter with its arguments. */
export interface FilterUse {
  readonly name: string;
  readonly apply: (value: Value, scope: Scope) => Value;
}

const noArguments: Arguments = { positional: [], named: new Map() };

export class ExpressionParser extends TokenReader {
  /** Parses one expression, or a tuple without brackets. ends: names that end the tuple. */
  protected tuple(hasConditions = true, ends: readonly string[] = []): Expression {
    const one = () => (hasConditions ? this.expression() : this.#or());
    const items = [one()];
    let isTuple = false;
    while (this.skip(',')) {
      isTuple = true;
      if (this.#endsTuple(ends)) break;
      items.push(one());
    }
    return isTuple ? tupleOf(items) : (items[0] as Expression);
  }

  #endsTuple(ends: readonly string[]): boolean {
    const { kind, text } = this.peek();
    return kind === '}}' || kind === '%}' || this.isNext(')') || (kind === 'name' && ends.includes(text));
  }

  protected expression(): Expression {
    let expression = this.#or();
    while (this.skipWord('if')) {
      const whenTrue = expression;
      const condition = this.#or();
      const whenFalse = this.skipWord('else') ? this.expression() : undefined;
      const value = (scope: Scope) => {
        if (isTrue(condition.value(scope))) return whenTrue.value(scope);
        return whenFalse === undefined
          ? new Undefined('a condition is false and has no else')
          : whenFalse.value(scope);
      };
      expression = { value };
    }
    return expression;
  }

  #or(): Expression {
    return this.#joined('or', () => this.#joined('and', () => this.#not()));
  }

  /** Operands between words: the value is that of the first operand which decides, or of the last. */
  #joined(word: 'or' | 'and', operand: () => Expression): Expression {
    let joined = operand();
    while (this.skipWord(word)) {
      const [left, right] = [joined, operand()];
      const value = (scope: Scope) => {
        const first = left.value(scope);
        return isTrue(first) === (word === 'or') ? first : right.value(scope);
      };
      joined = { value };
    }
    return joined;
  }

  #not(): Expression {
    if (!this.skipWord('not')) return this.#comparison();
    const operand = this.#not();
    return { value: (scope) => !isTrue(operand.value(scope)) };
  }

  /** `a < b <= c`: each operand is evaluated once, and none after the first comparison that is false. */
  #comparison(): Expression {
    const first = this.#sum();
    const rest: { operator: Comparison; operand: Expression }[] = [];
    for (let operator = this.#comparator(); operator !== undefined; operator = this.#comparator())
      rest.push({ operator, operand: this.#sum() });
    if (rest.length === 0) return first;
    const value = (scope: Scope) => {
      let left = first.value(scope);
      return rest.every(({ operator, operand }) => {
        const right = operand.value(scope);
        const holds = compareBy(operator, left, right);
        left = right;
        return holds;
      });
    };
    return { value };
  }

  #comparator(): Comparison | undefined {
    const { kind, text } = this.peek();
    if (kind === 'operator' && comparisons.includes(text)) return this.next().text as Comparison;
    if (this.skipWord('in')) return 'in';
    if (!this.isNextWord('not') || !this.isNextWord('in', 1)) return undefined;
    this.next();
    this.next();
    return 'not in';
  }

  #sum(): Expression {
    return this.#binary(['+', '-'], () => this.#binary(['~'], () => this.#product()));
  }

  #product(): Expression {
    return this.#binary(['*', '/', '//', '%'], () => this.#binary(['**'], () => this.#unary()));
  }

  #binary(operators: readonly BinaryOperator[], operand: () => Expression): Expression {
    let left = operand();
    for (;;) {
      const operator = operators.find((each) => this.skip(each));
      if (operator === undefined) return left;
      left = operator === '+' ? added(left, operand()) : operation(operator, left, operand());
    }
  }

  #unary(isFiltered = true): Expression {
    const sign = (['-', '+'] as const).find((each) => this.skip(each));
    const bare = sign === undefined ? this.#primary() : this.#signed(sign);
    const expression = this.#postfix(bare);
    return isFiltered ? this.#filtered(expression) : expression;
  }

  #signed(sign: '-' | '+'): Expression {
    const operand = this.#unary(false);
    return { value: (scope) => negated(sign, operand.value(scope)) };
  }

  #primary(): Expression {
    const token = this.next();
    const { kind, text } = token;
    switch (kind) {
      case 'name': {
        if (unsupported.includes(text)) throw this.error(`${text} is not supported`);
        const value = constants.get(text);
        return value === undefined ? { value: (scope) => scope.get(text) } : constant(value);
      }
      case 'integer':
        return constant(integerOf(text));
      case 'float':
        return constant(Number(text.replaceAll('_', '')));
      case 'string': {
        let value = text;
        while (this.peek().kind === 'string') value += this.next().text;
        return constant(value);
      }
      case 'operator':
        if (text === '(') return this.#bracketed();
        if (text === '[') return this.#list();
        if (text === '{') return this.#dict();
    }
    throw this.unexpected(token);
  }

  #bracketed(): Expression {
    if (this.skip(')')) return tupleOf([]);
    const expression = this.tuple();
    this.expect(')');
    return expression;
  }

  #list(): Expression {
    const items = this.#items(']', () => this.expression());
    return { value: (scope) => items.map((item) => item.value(scope)) };
  }

  #dict(): Expression {
    const entries = this.#items('}', () => {
      const key = this.expression();
      this.expect(':');
      return [key, this.expression()] as const;
    });
    const entryIn = (scope: Scope, [key, item]: (typeof entries)[number]): [Key, Value] => [
      keyOf(key.value(scope)),
      item.value(scope),
    ];
    return { value: (scope) => new Map(entries.map((entry) => entryIn(scope, entry))) };
  }

  /** Parses items up to the closing bracket. A comma may follow the last one. */
  #items<Item>(close: string, one: () => Item): Item[] {
    const items: Item[] = [];
    while (!this.skip(close)) {
      if (items.length > 0) this.expect(',');
      if (this.skip(close)) break;
      items.push(one());
    }
    return items;
  }

  #postfix(start: Expression): Expression {
    let object = start;
    for (;;) {
      if (this.skip('.')) object = this.#member(object);
      else if (this.skip('[')) object = this.#subscript(object);
      else if (this.isNext('(')) object = this.#call(object);
      else return object;
    }
  }

  #member(object: Expression): Expression {
    const token = this.next();
    const { kind, text } = token;
    if (kind === 'name') return { value: (scope) => attributeOf(object.value(scope), text) };
    if (kind !== 'integer') throw this.unexpected(token);
    return { value: (scope) => itemOf(object.value(scope), integerOf(text)) };
  }

  #subscript(object: Expression): Expression {
    const bounds: (Expression | undefined)[] = [this.#bound()];
    while (this.skip(':')) bounds.push(this.#bound());
    const [index] = bounds;
    if (bounds.length > 3) throw this.error('a slice has more than three bounds');
    if (bounds.length === 1 && this.isNext(','))
      throw this.error('an index of several items is not supported');
    this.expect(']');
    if (bounds.length > 1) {
      const boundsIn = (scope: Scope) => bounds.map((bound) => bound?.value(scope));
      return { value: (scope) => sliceOf(object.value(scope), boundsIn(scope)) };
    }
    if (index === undefined) throw this.error('an index is missing');
    return { value: (scope) => itemOf(object.value(scope), index.value(scope)) };
  }

  #bound(): Expression | undefined {
    return this.isNext(':') || this.isNext(']') ? undefined : this.expression();
  }

  #call(callee: Expression): Expression {
    const args = this.#arguments();
    return { value: (scope) => call(callee.value(scope), args(scope)), call: { callee, args } };
  }

  #filtered(start: Expression): Expression {
    let object = start;
    for (;;) {
      if (this.skip('|')) object = filteredBy(this.filterUse(), object);
      else if (this.skipWord('is')) object = this.#test(object);
      else if (this.isNext('(')) object = this.#call(object);
      else return object;
    }
  }

  protected filterUse(): FilterUse {
    const name = this.expectName();
    const args = this.isNext('(') ? this.#arguments() : () => noArguments;
    return { name, apply: (value, scope) => applyFilter(name, value, args(scope)) };
  }

  #test(object: Expression): Expression {
    const isNegated = this.skipWord('not');
    const name = this.expectName();
    const args = this.#testArguments();
    const value = (scope: Scope) => {
      const { positional, named } = args(scope);
      if (named.size > 0) throw new JinjaError(`the test ${name} takes no named arguments`);
      return passes(name, object.value(scope), positional) !== isNegated;
    };
    return { value };
  }

  /** The arguments in brackets, or one without. */
  #testArguments(): ArgumentList {
    if (this.isNext('(')) return this.#arguments();
    const { kind, text } = this.peek();
    const begins =
      kind === 'name' ? !afterTest.includes(text) : ['string', 'integer', 'float'].includes(kind);
    if (!begins && !this.isNext('[') && !this.isNext('{')) return () => noArguments;
    if (this.isNextWord('is')) throw this.error('tests cannot be chained');
    const only = this.#postfix(this.#primary());
    return (scope) => ({ ...noArguments, positional: [only.value(scope)] });
  }

  #arguments(): ArgumentList {
    const positional: Expression[] = [];
    const named: (readonly [string, Expression])[] = [];
    const spreads: { readonly stars: 1 | 2; readonly spread: Expression }[] = [];
    this.expect('(');
    this.#items(')', () => {
      if (this.skip('**')) spreads.push({ stars: 2, spread: this.expression() });
      else if (this.skip('*')) spreads.push({ stars: 1, spread: this.expression() });
      else if (this.peek().kind === 'name' && this.isNext('=', 1)) {
        const name = this.expectName();
        this.expect('=');
        named.push([name, this.expression()]);
      } else {
        if (named.length > 0) throw this.error('a positional argument follows a named one');
        positional.push(this.expression());
      }
    });
    return (scope) => {
      const values = positional.map((each) => each.value(scope));
      const byName = new Map(named.map(([name, each]) => [name, each.value(scope)]));
      for (const { stars, spread } of spreads) {
        const value = spread.value(scope);
        if (stars === 1) values.push(...itemsOf(value));
        else if (isDict(value))
          for (const [key, item] of value) byName.set(stringOf(key, 'a name of **'), item);
        else throw new JinjaError(`** takes a dict, not ${typeName(value)}`);
      }
      return { positional: values, named: byName };
    };
  }
}

function constant(value: Value): Expression {
  return { value: () => value };
}

function integerOf(text: string): bigint {
  return BigInt(text.replaceAll('_', ''));
}

function tupleOf(items: readonly Expression[]): Expression {
  return { value: (scope) => Tuple.from(items, (item) => item.value(scope)) };
}

function filteredBy({ name, apply }: FilterUse, object: Expression): Expression {
  return { value: (scope) => apply(object.value(scope), scope), isSafe: safeFilters.includes(name) };
}

function operation(operator: BinaryOperator, left: Expression, right: Expression): Expression {
  return { value: (scope) => operate(operator, left.value(scope), right.value(scope)) };
}

/** Adds with `+`. Text added to text that is marked as safe is escaped, as in Python. `~` does not escape. */
function added(left: Expression, right: Expression): Expression {
  const [isLeftSafe = false, isRightSafe = false] = [left.isSafe, right.isSafe];
  const sum = operation(
    '+',
    isRightSafe && !isLeftSafe ? escaped(left) : left,
    isLeftSafe && !isRightSafe ? escaped(right) : right,
  );
  return { ...sum, isSafe: isLeftSafe || isRightSafe };
}

function escaped(object: Expression): Expression {
  return { value: (scope) => applyFilter('escape', object.value(scope), noArguments) };
}
