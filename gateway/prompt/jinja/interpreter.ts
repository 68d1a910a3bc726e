/** Runs the statements of a template. */
import { argumentsOf, call, evaluate, filtered, Scope } from './evaluate.ts';
import { globalsAt } from './globals.ts';
import type { Block, Deployment, FilterUse, ForStatement, MacroStatement, Statement } from './nodes.ts';
import { parse } from './parser.ts';
import { textOf } from './text.ts';
import {
  type Arguments,
  Attributes,
  bind,
  Callable,
  fromJson,
  isEqual,
  isTrue,
  itemsOf,
  JinjaError,
  Tuple,
  Undefined,
  type Value,
} from './values.ts';

/** How a block ended: at its last statement, or at a tag that ends an iteration or its loop. */
type End = 'done' | 'break' | 'continue';

class Interpreter {
  #output = '';

  /** Runs the block and returns its output. */
  run(body: Block, scope: Scope): string {
    this.#block(body, scope);
    return this.#output;
  }

  #block(body: Block, scope: Scope): End {
    for (const statement of body) {
      const end = this.#statement(statement, scope);
      if (end !== 'done') return end;
    }
    return 'done';
  }

  #statement(statement: Statement, scope: Scope): End {
    switch (statement.kind) {
      case 'text':
        this.#output += statement.text;
        return 'done';
      case 'output':
        this.#output += textOf(evaluate(statement.expression, scope));
        return 'done';
      case 'if': {
        const { branches, otherwise } = statement;
        const branch = branches.find(({ condition }) => isTrue(evaluate(condition, scope)));
        return this.#block(branch?.body ?? otherwise, scope);
      }
      case 'for': {
        const items = itemsOf(evaluate(statement.iterable, scope));
        return this.#for(statement, items, scope, 0);
      }
      case 'set':
        assign(statement.target, evaluate(statement.value, scope), scope);
        return 'done';
      case 'setBlock':
        assign(statement.target, captured(statement.body, statement.filters, new Scope(scope), scope), scope);
        return 'done';
      case 'macro':
        scope.set(statement.name, macroOf(statement, scope));
        return 'done';
      case 'callBlock': {
        const { positional, named } = argumentsOf(statement.call.args, scope);
        const args = { positional, named: new Map([...named, ['caller', macroOf(statement.caller, scope)]]) };
        this.#output += textOf(call(evaluate(statement.call.callee, scope), args));
        return 'done';
      }
      case 'filterBlock':
        this.#output += captured(statement.body, statement.filters, new Scope(scope), scope);
        return 'done';
      case 'with': {
        const inner = new Scope(scope);
        for (const [target, value] of statement.values) assign(target, evaluate(value, scope), inner);
        return this.#block(statement.body, inner);
      }
      case 'generation':
        return this.#block(statement.body, new Scope(scope));
      case 'break':
      case 'continue':
        return statement.kind;
    }
  }

  /** Each iteration has its own scope, so its assignments are gone afterwards. */
  #for(statement: ForStatement, all: readonly Value[], scope: Scope, depth: number): 'done' {
    const { target, condition, body, otherwise } = statement;
    const scopeOf = (item: Value) => {
      const inner = new Scope(scope);
      assign(target, item, inner);
      return inner;
    };
    const items =
      condition === undefined
        ? all
        : Array.from(all).filter((item) => isTrue(evaluate(condition, scopeOf(item))));
    if (items.length === 0) this.#block(otherwise, new Scope(scope));
    const recurse = statement.isRecursive
      ? (args: Arguments) => {
          const { iterable = null } = bind('loop', args, ['iterable'], 1);
          const interpreter = new Interpreter();
          interpreter.#for(statement, itemsOf(iterable), scope, depth + 1);
          return interpreter.#output;
        }
      : undefined;
    const changes = { last: undefined };
    for (const index of items.keys()) {
      const inner = scopeOf(items[index] as Value);
      inner.set('loop', loopOf(items, index, depth, changes, recurse));
      if (this.#block(body, inner) === 'break') break;
    }
    return 'done';
  }
}

function captured(body: Block, filters: readonly FilterUse[], scope: Scope, outer: Scope): Value {
  let value: Value = new Interpreter().run(body, scope);
  for (const filter of filters) value = filtered(value, filter, outer);
  return value;
}

function macroOf({ name, parameters, body }: MacroStatement, scope: Scope): Callable {
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
          : evaluate(defaultValue, inner);
      const given = bound[parameter];
      inner.set(parameter, given === undefined ? otherwise() : given);
    }
    return new Interpreter().run(body, inner);
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
  return new Attributes(
    'LoopContext',
    [
      ['index', BigInt(index + 1)],
      ['index0', BigInt(index)],
      ['revindex', BigInt(length - index)],
      ['revindex0', BigInt(length - index - 1)],
      ['first', index === 0],
      ['last', index === length - 1],
      ['length', BigInt(length)],
      ['depth', BigInt(depth + 1)],
      ['depth0', BigInt(depth)],
      ['previtem', itemAt(items, index - 1)],
      ['nextitem', itemAt(items, index + 1)],
      ['cycle', new Callable('cycle', cycle)],
      ['changed', new Callable('changed', changed)],
    ],
    recurse,
  );
}

function itemAt(items: readonly Value[], index: number): Value {
  const item = items[index];
  return item === undefined ? new Undefined(`the loop has no item ${index}`) : item;
}

function assign(target: Deployment, value: Value, scope: Scope): void {
  switch (target.kind) {
    case 'name':
      scope.set(target.name, value);
      return;
    case 'attribute': {
      const namespace = scope.get(target.namespace);
      if (!(namespace instanceof Attributes) || namespace.type !== 'Namespace')
        throw new JinjaError(`${target.namespace} is not a namespace, so ${target.name} cannot be set in it`);
      namespace.values.set(target.name, value);
      return;
    }
    case 'targets': {
      const items = itemsOf(value);
      if (items.length !== target.items.length)
        throw new JinjaError(`${items.length} values cannot be assigned to ${target.items.length} names`);
      for (const [index, each] of target.items.entries()) assign(each, items[index] as Value, scope);
    }
  }
}

/**
 * A chat template in the language of Jinja 3.1 as Python runs it, with trim_blocks, lstrip_blocks, loop controls and the
 * functions that Hugging Face's transformers adds. Unsupported parts of the language are refused by name when the template is
 * parsed.
 */
export class Template {
  readonly #body: Block;

  /** Throws JinjaError if the source cannot be parsed. */
  constructor(source: string) {
    this.#body = parse(source);
  }

  /** variables: any JSON values. Throws JinjaError for the template's own refusals and for its errors. */
  render(variables: Readonly<Record<string, unknown>>, now = new Date()): string {
    const globals = new Scope(undefined, globalsAt(now));
    const given = Object.entries(variables).map(([name, value]) => [name, fromJson(value)] as const);
    return new Interpreter().run(this.#body, new Scope(globals, given));
  }
}
