/**
 * Parses expressions with Jinja's precedence. The methods are ordered from the operators that bind least to those that bind
 * most.
 */

import type { Token } from './lexer.ts';
import type { ArgumentList, BinaryOperator, Comparison, Expression, FilterUse } from './nodes.ts';
import { JinjaError } from './values.ts';

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
const afterTest: readonly string[] = ['else', 'or', 'and'];
/** Names of Jinja that are refused here, since they would otherwise be undefined and fail later with a less clear message. */
const unsupported: readonly string[] = ['varargs', 'kwargs', 'self', 'super', 'joiner', 'cycler', 'lipsum'];
const noArguments: ArgumentList = { positional: [], named: [], spreads: [] };

export class ExpressionParser {
  readonly #tokens: readonly Token[];
  #at = 0;

  constructor(tokens: readonly Token[]) {
    this.#tokens = tokens;
  }

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
    return isTuple ? { kind: 'tuple', items } : (items[0] as Expression);
  }

  #endsTuple(ends: readonly string[]): boolean {
    const { kind, text } = this.peek();
    return kind === '}}' || kind === '%}' || this.isNext(')') || (kind === 'name' && ends.includes(text));
  }

  protected expression(): Expression {
    let expression = this.#or();
    while (this.skipWord('if')) {
      const condition = this.#or();
      const whenFalse = this.skipWord('else') ? this.expression() : undefined;
      expression = { kind: 'conditional', condition, whenTrue: expression, whenFalse };
    }
    return expression;
  }

  #or(): Expression {
    let left = this.#and();
    while (this.skipWord('or')) left = { kind: 'or', left, right: this.#and() };
    return left;
  }

  #and(): Expression {
    let left = this.#not();
    while (this.skipWord('and')) left = { kind: 'and', left, right: this.#not() };
    return left;
  }

  #not(): Expression {
    if (!this.skipWord('not')) return this.#comparison();
    return { kind: 'unary', operator: 'not', operand: this.#not() };
  }

  #comparison(): Expression {
    const first = this.#sum();
    const rest: { operator: Comparison; operand: Expression }[] = [];
    for (let operator = this.#comparator(); operator !== undefined; operator = this.#comparator())
      rest.push({ operator, operand: this.#sum() });
    return rest.length === 0 ? first : { kind: 'compare', first, rest };
  }

  #comparator(): Comparison | undefined {
    const { kind, text } = this.peek();
    if (kind === 'operator' && comparisons.includes(text)) {
      this.next();
      return text as Comparison;
    }
    if (this.skipWord('in')) return 'in';
    const { kind: kindBehind, text: textBehind } = this.peek(1);
    if (kind !== 'name' || text !== 'not' || kindBehind !== 'name' || textBehind !== 'in') return undefined;
    this.next();
    this.next();
    return 'not in';
  }

  #sum(): Expression {
    return this.#binary(['+', '-'], () => this.#concatenation());
  }

  #concatenation(): Expression {
    return this.#binary(['~'], () => this.#product());
  }

  #product(): Expression {
    return this.#binary(['*', '/', '//', '%'], () => this.#power());
  }

  #power(): Expression {
    return this.#binary(['**'], () => this.#unary());
  }

  #binary(operators: readonly BinaryOperator[], operand: () => Expression): Expression {
    let left = operand();
    for (;;) {
      const operator = operators.find((each) => this.skip(each));
      if (operator === undefined) return left;
      const right = operand();
      left = operator === '+' ? added(left, right) : { kind: 'binary', operator, left, right };
    }
  }

  #unary(isFiltered = true): Expression {
    const sign = (['-', '+'] as const).find((each) => this.skip(each));
    const bare: Expression =
      sign === undefined ? this.#primary() : { kind: 'unary', operator: sign, operand: this.#unary(false) };
    const expression = this.#postfix(bare);
    return isFiltered ? this.#filtered(expression) : expression;
  }

  #primary(): Expression {
    const token = this.next();
    switch (token.kind) {
      case 'name': {
        if (unsupported.includes(token.text)) throw this.error(`${token.text} is not supported`);
        const constant = constants.get(token.text);
        return constant === undefined
          ? { kind: 'name', name: token.text }
          : { kind: 'constant', value: constant };
      }
      case 'integer':
      case 'float':
        return { kind: 'constant', value: token.value };
      case 'string': {
        let value = token.text;
        while (this.peek().kind === 'string') value += this.next().text;
        return { kind: 'constant', value };
      }
      case 'operator':
        if (token.text === '(') return this.#bracketed();
        if (token.text === '[') return { kind: 'list', items: this.#items(']') };
        if (token.text === '{') return this.#dict();
    }
    throw this.unexpected(token);
  }

  #bracketed(): Expression {
    if (this.skip(')')) return { kind: 'tuple', items: [] };
    const expression = this.tuple();
    this.expect(')');
    return expression;
  }

  #items(close: string): Expression[] {
    const items: Expression[] = [];
    while (!this.skip(close)) {
      if (items.length > 0) this.expect(',');
      if (this.skip(close)) break;
      items.push(this.expression());
    }
    return items;
  }

  #dict(): Expression {
    const entries: (readonly [Expression, Expression])[] = [];
    while (!this.skip('}')) {
      if (entries.length > 0) this.expect(',');
      if (this.skip('}')) break;
      const key = this.expression();
      this.expect(':');
      entries.push([key, this.expression()]);
    }
    return { kind: 'dict', entries };
  }

  #postfix(start: Expression): Expression {
    let object = start;
    for (;;) {
      if (this.skip('.')) object = this.#member(object);
      else if (this.skip('[')) object = this.#subscript(object);
      else if (this.isNext('(')) object = { kind: 'call', callee: object, args: this.#arguments() };
      else return object;
    }
  }

  #member(object: Expression): Expression {
    const token = this.next();
    if (token.kind === 'name') return { kind: 'attribute', object, name: token.text };
    if (token.kind === 'integer')
      return { kind: 'item', object, index: { kind: 'constant', value: token.value } };
    throw this.unexpected(token);
  }

  #subscript(object: Expression): Expression {
    const bounds: (Expression | undefined)[] = [this.#bound()];
    while (this.skip(':')) bounds.push(this.#bound());
    const [index] = bounds;
    if (bounds.length > 3) throw this.error('a slice has more than three bounds');
    if (bounds.length === 1 && this.isNext(','))
      throw this.error('an index of several items is not supported');
    this.expect(']');
    if (bounds.length > 1) return { kind: 'slice', object, bounds };
    if (index === undefined) throw this.error('an index is missing');
    return { kind: 'item', object, index };
  }

  #bound(): Expression | undefined {
    return this.isNext(':') || this.isNext(']') ? undefined : this.expression();
  }

  #filtered(start: Expression): Expression {
    let object = start;
    for (;;) {
      if (this.skip('|')) object = { kind: 'filter', object, filter: this.filterUse() };
      else if (this.skipWord('is')) object = this.#test(object);
      else if (this.isNext('(')) object = { kind: 'call', callee: object, args: this.#arguments() };
      else return object;
    }
  }

  protected filterUse(): FilterUse {
    const name = this.expectName();
    return { name, args: this.isNext('(') ? this.#arguments() : noArguments };
  }

  #test(object: Expression): Expression {
    const isNegated = this.skipWord('not');
    const name = this.expectName();
    const test = { kind: 'test', object, name, isNegated } as const;
    if (this.isNext('(')) return { ...test, args: this.#arguments() };
    if (!this.#beginsArgument()) return { ...test, args: noArguments };
    if (this.peek().text === 'is' && this.peek().kind === 'name') throw this.error('tests cannot be chained');
    return { ...test, args: { ...noArguments, positional: [this.#postfix(this.#primary())] } };
  }

  #beginsArgument(): boolean {
    const { kind, text } = this.peek();
    if (kind === 'name') return !afterTest.includes(text) && text !== 'if' && text !== 'not' && text !== 'in';
    return (
      kind === 'string' || kind === 'integer' || kind === 'float' || this.isNext('[') || this.isNext('{')
    );
  }

  #arguments(): ArgumentList {
    const positional: Expression[] = [];
    const named: (readonly [string, Expression])[] = [];
    const spreads: { stars: 1 | 2; value: Expression }[] = [];
    let isFirst = true;
    this.expect('(');
    while (!this.skip(')')) {
      if (!isFirst) this.expect(',');
      if (this.skip(')')) break;
      isFirst = false;
      if (this.skip('**')) spreads.push({ stars: 2, value: this.expression() });
      else if (this.skip('*')) spreads.push({ stars: 1, value: this.expression() });
      else if (this.peek().kind === 'name' && this.isNext('=', 1)) {
        const name = this.expectName();
        this.expect('=');
        named.push([name, this.expression()]);
      } else {
        if (named.length > 0) throw this.error('a positional argument follows a named one');
        positional.push(this.expression());
      }
    }
    return { positional, named, spreads };
  }

  protected peek(ahead = 0): Token {
    return this.#tokens[Math.min(this.#at + ahead, this.#tokens.length - 1)] as Token;
  }

  protected next(): Token {
    const token = this.peek();
    this.#at++;
    return token;
  }

  protected isNext(operator: string, ahead = 0): boolean {
    const { kind, text } = this.peek(ahead);
    return kind === 'operator' && text === operator;
  }

  protected skip(operator: string): boolean {
    const isThere = this.isNext(operator);
    if (isThere) this.next();
    return isThere;
  }

  protected skipWord(word: string): boolean {
    const { kind, text } = this.peek();
    const isThere = kind === 'name' && text === word;
    if (isThere) this.next();
    return isThere;
  }

  protected expect(operator: string): void {
    if (!this.skip(operator)) throw this.unexpected();
  }

  protected expectWord(word: string): void {
    if (!this.skipWord(word)) throw this.unexpected();
  }

  protected expectName(): string {
    const token = this.next();
    if (token.kind !== 'name') throw this.unexpected(token);
    return token.text;
  }

  protected expectKind(kind: '}}' | '%}'): void {
    const token = this.next();
    if (token.kind !== kind) throw this.unexpected(token);
  }

  protected unexpected(token = this.peek()): JinjaError {
    const { kind, text, line } = token;
    if (kind === 'end') return new JinjaError(`the template ends too early, in line ${line}`);
    const shown = kind === '}}' || kind === '%}' ? kind : text;
    return new JinjaError(`there is an unexpected ${JSON.stringify(shown)} in line ${line}`);
  }

  protected error(what: string): JinjaError {
    return new JinjaError(`${what}, in line ${this.peek().line}`);
  }
}

/** Adds with `+`. Text added to text that is marked as safe is escaped, as in Python. `~` does not escape. */
function added(left: Expression, right: Expression): Expression {
  const [isLeftSafe, isRightSafe] = [isMarkedSafe(left), isMarkedSafe(right)];
  return {
    kind: 'binary',
    operator: '+',
    left: isRightSafe && !isLeftSafe ? escaped(left) : left,
    right: isLeftSafe && !isRightSafe ? escaped(right) : right,
  };
}

function isMarkedSafe(expression: Expression): boolean {
  if (expression.kind === 'filter') return ['safe', 'escape', 'e'].includes(expression.filter.name);
  if (expression.kind !== 'binary' || expression.operator !== '+') return false;
  return isMarkedSafe(expression.left) || isMarkedSafe(expression.right);
}

function escaped(object: Expression): Expression {
  return { kind: 'filter', object, filter: { name: 'escape', args: noArguments } };
}
