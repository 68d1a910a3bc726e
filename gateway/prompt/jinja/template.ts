import { Scope } from './attributes.ts';
import { strftime } from './formats.ts';
import { tokensOf } from './lexer.ts';
import { outputOf, StatementParser } from './statement-parser.ts';
import { textOf } from './text.ts';
import {
  type Arguments,
  Attributes,
  bind,
  Callable,
  fromJson,
  intOf,
  isDict,
  itemsOf,
  JinjaError,
  keyOf,
  stringOf,
  type Value,
} from './values.ts';

/** The same limit as in Jinja's sandbox. */
const maxRange = 100_000;

/** The functions that every chat template may call. now: the time that strftime_now writes. */
function globalsAt(now: Date): readonly (readonly [string, Value])[] {
  const functions: Record<string, Callable['call']> = {
    range,
    namespace: (args) => new Attributes('Namespace', namedValues('namespace', args)),
    dict: (args) => new Map(namedValues('dict', args)),
    raise_exception: (args) => {
      const { message = null } = bind('raise_exception', args, ['message'], 1);
      throw new JinjaError(textOf(message));
    },
    strftime_now: (args) => {
      const { format = null } = bind('strftime_now', args, ['format'], 1);
      return strftime(now, stringOf(format, 'format'));
    },
  };
  return Object.entries(functions).map(([name, call]) => [name, new Callable(name, call)]);
}

function range({ positional, named }: Arguments): Value {
  if (named.size > 0 || positional.length === 0 || positional.length > 3)
    throw new JinjaError('range takes one to three numbers');
  const numbers = positional.map((each) => intOf(each, 'a number of range'));
  const [start = 0, stop = 0, step = 1] = numbers.length === 1 ? [0, numbers[0]] : numbers;
  if (step === 0) throw new JinjaError('the step of range is 0');
  const length = Math.max(0, Math.ceil((stop - start) / step));
  if (length > maxRange) throw new JinjaError(`range gives at most ${maxRange} numbers, not ${length}`);
  return Array.from({ length }, (_, index) => BigInt(start + index * step));
}

/** The entries of a dict or of a list of pairs, followed by the named arguments. */
function namedValues(what: string, { positional, named }: Arguments): (readonly [string, Value])[] {
  if (positional.length > 1) throw new JinjaError(`${what} takes at most one dict`);
  const [source = []] = positional;
  const pairs = isDict(source) ? [...source] : itemsOf(source).map(pairOf);
  return [...pairs.map(([key, value]) => [stringOf(key, `a key of ${what}`), value] as const), ...named];
}

function pairOf(value: Value): readonly [ReturnType<typeof keyOf>, Value] {
  const [key, item, ...rest] = itemsOf(value);
  if (key === undefined || item === undefined || rest.length > 0)
    throw new JinjaError('a pair has two items');
  return [keyOf(key), item];
}

/**
 * A chat template in the language of Jinja 3.1 as Python runs it, with trim_blocks, lstrip_blocks, loop controls and the
 * functions that Hugging Face's transformers adds. Unsupported parts of the language are refused by name when the template is
 * parsed.
 */
export class Template {
  readonly #body: ReturnType<StatementParser['template']>;

  /** Throws JinjaError with the line if the source cannot be parsed. */
  constructor(source: string) {
    this.#body = new StatementParser(tokensOf(source)).template();
  }

  /** variables: any JSON values. Throws JinjaError for the template's own refusals and for its errors. */
  render(variables: Readonly<Record<string, unknown>>, now = new Date()): string {
    const globals = new Scope(undefined, globalsAt(now));
    const given = Object.entries(variables).map(([name, value]) => [name, fromJson(value)] as const);
    return outputOf(this.#body, new Scope(globals, given));
  }
}
