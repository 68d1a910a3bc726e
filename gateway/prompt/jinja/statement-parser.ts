/**
 * Parses tags and the text between them into functions that write the output. What Jinja has and chat templates do not use is
 * refused by name, with the line.
 */
import { call, Scope } from './attributes.ts';
import { type Expression, ExpressionParser, type FilterUse } from './expression-parser.ts';
import { textOf } from './text.ts';
import {
  type Arguments,
  Attributes,
  bind,
  Callable,
  isEqual,
  isTrue,
  itemsOf,
  JinjaError,
  Tuple,
  Undefined,
  type Value,
} from './values.ts';

/** How a statement ended: at its end, or at a tag that ends an iteration or its loop. */
type End = 'done' | 'break' | 'continue';

interface Output {
  text: string;
}

/** Runs a statement. */
type Statement = (scope: Scope, output: Output) => End;

/** Assigns a value to a name, an attribute of a namespace, or several of these. */
type Target = (value: Value, scope: Scope) => void;

interface Parameter {
  readonly name: string;
  readonly defaultValue: Expression | undefined;
}

interface Loop {
  readonly target: Target;
  readonly iterable: Expression;
  readonly condition: Expression | undefined;
  readonly isRecursive: boolean;
  readonly body: Statement;
  readonly otherwise: Statement;
}

/** Runs a statement and returns its output. */
export function outputOf(statement: Statement, scope: Scope): string {
  const output = { text: '' };
  statement(scope, output);
  return output.text;
}

export class StatementParser extends ExpressionParser {
  /** The number of `for` loops around this place. */
  #loops = 0;

  template(): Statement {
    const body = this.#block([]);
    if (this.peek().kind !== 'end') throw this.unexpected();
    return body;
  }

  /** Parses up to one of these tags, whose name is then the next token. Without `ends` it parses to the end. */
  #block(ends: readonly string[]): Statement {
    const statements: Statement[] = [];
    for (;;) {
      const token = this.peek();
      if (token.kind === 'end') {
        if (ends.length > 0) throw this.error(`the template ends, but ${ends.join(' or ')} is missing`);
        return inOrder(statements);
      }
      this.next();
      if (token.kind === 'text') statements.push(writing(() => token.text));
      else if (token.kind === '{{') {
        const expression = this.tuple();
        statements.push(writing((scope) => textOf(expression.value(scope))));
        this.expectKind('}}');
      } else if (ends.some((end) => this.isNextWord(end))) return inOrder(statements);
      else statements.push(this.#statement());
    }
  }

  /** Parses a statement. `{%` has been read. */
  #statement(): Statement {
    const name = this.expectName();
    switch (name) {
      case 'if':
        return this.#if();
      case 'for':
        return this.#for();
      case 'set':
        return this.#set();
      case 'macro':
        return this.#macro();
      case 'call':
        return this.#callBlock();
      case 'filter': {
        const filters = [this.filterUse(), ...this.#filters()];
        const body = this.#body('endfilter');
        return writing((scope) => textOf(filteredOutput(body, filters, scope)));
      }
      case 'with':
        return this.#with();
      case 'generation': {
        // It marks text that an assistant wrote.
        const body = this.#body('endgeneration');
        return (scope, output) => body(new Scope(scope), output);
      }
      case 'break':
      case 'continue':
        if (this.#loops === 0) throw this.error(`${name} is outside a loop`);
        this.expectKind('%}');
        return () => name;
      default:
        throw this.error(`there is no tag named ${name}`);
    }
  }

  /** Parses the body of a tag, from the end of its opening tag to the end of its closing tag. */
  #body(end: string): Statement {
    this.expectKind('%}');
    const body = this.#block([end]);
    this.next();
    this.expectKind('%}');
    return body;
  }

  #if(): Statement {
    const branches: { condition: Expression; body: Statement }[] = [];
    let otherwise = inOrder([]);
    for (let tag = 'if'; tag !== 'endif'; ) {
      const condition = tag === 'else' ? undefined : this.tuple(false);
      this.expectKind('%}');
      const body = this.#block(condition === undefined ? ['endif'] : ['elif', 'else', 'endif']);
      if (condition === undefined) otherwise = body;
      else branches.push({ condition, body });
      tag = this.expectName();
    }
    this.expectKind('%}');
    return (scope, output) => {
      const branch = branches.find(({ condition }) => isTrue(condition.value(scope)));
      return (branch?.body ?? otherwise)(scope, output);
    };
  }

  #for(): Statement {
    const target = this.#target();
    if (!this.skipWord('in')) throw this.unexpected();
    const iterable = this.tuple(false, ['recursive', 'if']);
    const condition = this.skipWord('if') ? this.expression() : undefined;
    const isRecursive = this.skipWord('recursive');
    this.expectKind('%}');
    this.#loops++;
    const body = this.#block(['else', 'endfor']);
    this.#loops--;
    let otherwise = inOrder([]);
    if (this.expectName() === 'else') otherwise = this.#body('endfor');
    else this.expectKind('%}');
    const loop = { target, iterable, condition, isRecursive, body, otherwise };
    return (scope, output) => runLoop(loop, itemsOf(iterable.value(scope)), scope, output, 0);
  }

  #set(): Statement {
    const target = this.#target();
    if (this.skip('=')) {
      const value = this.tuple();
      this.expectKind('%}');
      return doing((scope) => target(value.value(scope), scope));
    }
    const filters = this.#filters();
    const body = this.#body('endset');
    return doing((scope) => target(filteredOutput(body, filters, scope), scope));
  }

  #filters(): FilterUse[] {
    const filters: FilterUse[] = [];
    while (this.skip('|')) filters.push(this.filterUse());
    return filters;
  }

  #target(): Target {
    const items = [this.#singleTarget()];
    let isTuple = false;
    while (this.skip(',')) {
      isTuple = true;
      if (this.peek().kind !== 'name' && !this.isNext('(')) break;
      items.push(this.#singleTarget());
    }
    if (!isTuple) return items[0] as Target;
    return (value, scope) => {
      const values = itemsOf(value);
      if (values.length !== items.length)
        throw new JinjaError(`${values.length} values cannot be assigned to ${items.length} names`);
      for (const [index, assign] of items.entries()) assign(values[index] as Value, scope);
    };
  }

  #singleTarget(): Target {
    if (this.skip('(')) {
      const target = this.#target();
      this.expect(')');
      return target;
    }
    const name = this.expectName();
    if (!this.skip('.')) return (value, scope) => scope.set(name, value);
    const attribute = this.expectName();
    return (value, scope) => {
      const namespace = scope.get(name);
      if (!(namespace instanceof Attributes) || namespace.type !== 'Namespace')
        throw new JinjaError(`${name} is not a namespace, so ${attribute} cannot be set in it`);
      namespace.values.set(attribute, value);
    };
  }

  #macro(): Statement {
    const name = this.expectName();
    const macro = this.#callable(name, this.#parameters(), 'endmacro');
    return doing((scope) => scope.set(name, macro(scope)));
  }

  /** Returns what makes the macro in the scope where it is defined. */
  #callable(name: string, parameters: readonly Parameter[], end: string): (scope: Scope) => Callable {
    const loops = this.#loops;
    this.#loops = 0;
    const body = this.#body(end);
    this.#loops = loops;
    return (scope) => macroOf(name, parameters, body, scope);
  }

  #parameters(): Parameter[] {
    const parameters: Parameter[] = [];
    this.expect('(');
    while (!this.skip(')')) {
      if (parameters.length > 0) this.expect(',');
      const name = this.expectName();
      parameters.push({ name, defaultValue: this.skip('=') ? this.expression() : undefined });
    }
    return parameters;
  }

  #callBlock(): Statement {
    const parameters = this.isNext('(') ? this.#parameters() : [];
    const called = this.expression().call;
    if (called === undefined) throw this.error('the tag call must be followed by a call of a macro');
    const caller = this.#callable('caller', parameters, 'endcall');
    return writing((scope) => {
      const { positional, named } = called.args(scope);
      const args = { positional, named: new Map([...named, ['caller', caller(scope)]]) };
      return textOf(call(called.callee.value(scope), args));
    });
  }

  #with(): Statement {
    const values: (readonly [Target, Expression])[] = [];
    while (this.peek().kind !== '%}') {
      if (values.length > 0) this.expect(',');
      const target = this.#singleTarget();
      this.expect('=');
      values.push([target, this.expression()]);
    }
    const body = this.#body('endwith');
    return (scope, output) => {
      const inner = new Scope(scope);
      for (const [assign, value] of values) assign(value.value(scope), inner);
      return body(inner, output);
    };
  }
}

function inOrder(statements: readonly Statement[]): Statement {
  return (scope, output) => {
    for (const run of statements) {
      const end = run(scope, output);
      if (end !== 'done') return end;
    }
    return 'done';
  };
}

function writing(text: (scope: Scope) => string): Statement {
  return (scope, output) => {
    output.text += text(scope);
    return 'done';
  };
}

function doing(step: (scope: Scope) => void): Statement {
  return (scope) => {
    step(scope);
    return 'done';
  };
}

function filteredOutput(body: Statement, filters: readonly FilterUse[], scope: Scope): Value {
  const output: Value = outputOf(body, new Scope(scope));
  return filters.reduce<Value>((value, filter) => filter.apply(value, scope), output);
}

/** Each iteration has its own scope, so its assignments are gone afterwards. */
function runLoop(loop: Loop, all: readonly Value[], scope: Scope, output: Output, depth: number): End {
  const { target, condition, body, otherwise } = loop;
  const scopeOf = (item: Value) => {
    const inner = new Scope(scope);
    target(item, inner);
    return inner;
  };
  const items =
    condition === undefined ? all : Array.from(all).filter((item) => isTrue(condition.value(scopeOf(item))));
  if (items.length === 0) otherwise(new Scope(scope), output);
  const recurse = (args: Arguments) => {
    const { iterable = null } = bind('loop', args, ['iterable'], 1);
    const inner = { text: '' };
    runLoop(loop, itemsOf(iterable), scope, inner, depth + 1);
    return inner.text;
  };
  const changes = { last: undefined };
  for (const index of items.keys()) {
    const inner = scopeOf(items[index] as Value);
    inner.set('loop', loopOf(items, index, depth, changes, loop.isRecursive ? recurse : undefined));
    if (body(inner, output) === 'break') break;
  }
  return 'done';
}

function macroOf(name: string, parameters: readonly Parameter[], body: Statement, scope: Scope): Callable {
  return new Callable(name, ({ positional, named }) => {
    const inner = new Scope(scope);
    const byName = new Map(named);
    const caller = byName.get('caller');
    if (caller !== undefined && byName.delete('caller')) inner.set('caller', caller);
    const names = parameters.map((parameter) => parameter.name);
    const bound = bind(`the macro ${name}`, { positional, named: byName }, names);
    for (const { name: parameter, defaultValue } of parameters) {
      const otherwise = () =>
        defaultValue === undefined
          ? new Undefined(`the parameter ${parameter} of the macro ${name} was not given`)
          : defaultValue.value(inner);
      const given = bound[parameter];
      inner.set(parameter, given === undefined ? otherwise() : given);
    }
    return outputOf(body, inner);
  });
}

function loopOf(
  items: readonly Value[],
  index: number,
  depth: number,
  changes: { last: Value | undefined },
  recurse: Callable['call'] | undefined,
): Attributes {
  const { length } = items;
  const itemAt = (at: number): Value => {
    const item = items[at];
    return item === undefined ? new Undefined(`the loop has no item ${at}`) : item;
  };
  const cycle = ({ positional }: Arguments) => {
    const item = positional[index % positional.length];
    if (item === undefined) throw new JinjaError('cycle needs at least one value');
    return item;
  };
  const changed = ({ positional }: Arguments) => {
    const value = Tuple.from(positional);
    const isSame = changes.last !== undefined && isEqual(changes.last, value);
    changes.last = value;
    return !isSame;
  };
  const values: Record<string, Value> = {
    index: BigInt(index + 1),
    index0: BigInt(index),
    revindex: BigInt(length - index),
    revindex0: BigInt(length - index - 1),
    first: index === 0,
    last: index === length - 1,
    length: BigInt(length),
    depth: BigInt(depth + 1),
    depth0: BigInt(depth),
    previtem: itemAt(index - 1),
    nextitem: itemAt(index + 1),
    cycle: new Callable('cycle', cycle),
    changed: new Callable('changed', changed),
  };
  return new Attributes('LoopContext', Object.entries(values), recurse);
}
