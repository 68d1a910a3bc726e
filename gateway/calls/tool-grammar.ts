import type { CallSyntax } from '../generation/tool-call-parser.ts';
import { shortIdPattern } from '../prompt/tool-call-format.ts';
import type { Grammar } from '../runner/runner.ts';
import { jsonFormat, maxJsonWhitespace, structuralTag } from './structural-tag.ts';
import type { WrittenParameters } from './written-arguments.ts';

/**
 * Makes the grammar of an answer to which tools are offered, as a structural tag of XGrammar. docs/tools.md has the
 * cases.
 */

/** A tool that an answer may call. */
export interface OfferedTool {
  readonly name: string;
  /** A JSON Schema of the arguments. */
  readonly parameters: object;
}

/** none: no call. auto: text, calls, or both. required: calls and nothing else. named: one call of the only tool. */
type CallChoice = 'none' | 'auto' | 'required' | 'named';

export interface Calling {
  readonly tools: readonly OfferedTool[];
  /** The parameters of the same tools, by name, for formats that write each argument by itself. */
  readonly written: ReadonlyMap<string, WrittenParameters>;
  readonly choice: CallChoice;
  /** Whether there may be more than one call. */
  readonly isParallel: boolean;
  /**
   * The form of a text, as a format of a structural tag. If set, an answer is either such a text or calls alone.
   * Undefined if text may be anything.
   */
  readonly text?: object | undefined;
}

type Syntax = Pick<CallSyntax, 'format' | 'marks'>;

export function toolGrammar(syntax: Syntax, calling: Calling): Grammar {
  return structuralTag(answerOf(syntax, calling));
}

function answerOf(syntax: Syntax, calling: Calling): object {
  const { format } = syntax;
  const { tools, choice, isParallel, text } = calling;
  const tags = tools.map((tool) => tagOf(syntax, tool, calling.written));
  if (choice === 'none') return noCalls(syntax);
  const calls = callsOf(syntax, tags, isParallel && choice !== 'named');
  if (choice !== 'auto') return calls;
  if (text !== undefined) return anyOf([calls, text]);
  if (format.separator === undefined) return anyOf([...tags, textNotBeginningWith(format.trigger)]);
  const isList = format.opening !== undefined;
  return triggered(syntax, isList ? [calls] : tags, isList || !isParallel);
}

/** Calls and nothing else. */
function callsOf(syntax: Syntax, tags: readonly object[], isParallel: boolean): object {
  const { separator, opening, closing = '' } = syntax.format;
  if (separator === undefined) return anyOf(tags);
  if (!isParallel && tags.length === 1 && opening === undefined) return tags[0] as object;
  const stops_after_first = { stop_after_first: !isParallel };
  const list = { type: 'tags_with_separator', tags, separator, at_least_one: true, ...stops_after_first };
  return opening === undefined
    ? list
    : tagOfElements([...elementsOf(opening, syntax), list], closing, syntax);
}

function noCalls({ format, marks }: Syntax): object {
  const { trigger, separator } = format;
  if (separator === undefined) return textNotBeginningWith(trigger);
  if (marks.size > 0) return { type: 'any_tokens', exclude_tokens: [...marks.keys()] };
  return { type: 'any_text', excludes: [trigger] };
}

/** Text in which a trigger begins one of the tags. */
function triggered({ format, marks }: Syntax, tags: readonly object[], stop_after_first: boolean): object {
  const trigger = [...marks].find(([, text]) => text === format.trigger)?.[0];
  if (trigger === undefined)
    return { type: 'triggered_tags', triggers: [format.trigger], tags, stop_after_first };
  const exclude_tokens = [...marks.keys()].filter((id) => id !== trigger);
  return { type: 'token_triggered_tags', trigger_tokens: [trigger], exclude_tokens, tags, stop_after_first };
}

function tagOf(
  syntax: Syntax,
  { name, parameters }: OfferedTool,
  written: ReadonlyMap<string, WrittenParameters>,
): object {
  const { begin, idMark, between, end } = syntax.format;
  const json = jsonFormat(parameters, maxJsonWhitespace);
  const content = syntax.format.parameter === undefined ? json : written.get(name)?.grammar;
  const id = { type: 'regex', pattern: shortIdPattern };
  const elements =
    idMark === undefined
      ? elementsOf(begin + name + between, syntax)
      : [...elementsOf(begin + name + idMark, syntax), id, ...elementsOf(between, syntax)];
  return tagOfElements(content === undefined ? elements : [...elements, content], end, syntax);
}

/** A tag whose content is the elements and then `end`. The first element, a text or a token, begins the tag. */
function tagOfElements(elements: readonly object[], end: string, syntax: Syntax): object {
  const [first, ...rest] = elements as readonly [Element, ...object[]];
  const begin = first.type === 'token' ? first : first.value;
  const last = elementsOf(end, syntax);
  const behind = last.at(-1);
  const between = [...rest, ...last.slice(0, -1)];
  const content =
    between.length === 1
      ? between[0]
      : between.length === 0
        ? EMPTY
        : { type: 'sequence', elements: between };
  const closing = behind === undefined ? '' : behind.type === 'token' ? behind : behind.value;
  return { type: 'tag', begin, content, end: closing };
}

type Element =
  | { readonly type: 'token'; readonly token: number }
  | { readonly type: 'const_string'; readonly value: string };

const EMPTY: Element = { type: 'const_string', value: '' };

/** Splits a text of a format into its control tokens and the texts between them. */
function elementsOf(text: string, { marks }: Pick<Syntax, 'marks'>): Element[] {
  if (text === '') return [];
  for (const [token, mark] of marks) {
    const at = text.indexOf(mark);
    if (at < 0) continue;
    const before = elementsOf(text.slice(0, at), { marks });
    return [...before, { type: 'token', token }, ...elementsOf(text.slice(at + mark.length), { marks })];
  }
  return [{ type: 'const_string', value: text }];
}

function anyOf(elements: readonly object[]): object {
  return elements.length === 1 ? (elements[0] as object) : { type: 'or', elements };
}

/**
 * Any text that does not begin with the prefix: it differs at one of the prefix's characters, or ends before one. prefix:
 * ASCII.
 */
function textNotBeginningWith(prefix: string): object {
  const ways = Array.from(prefix, (char, at) => {
    const other = `[^${/[\\\]^-]/.test(char) ? `\\${char}` : char}]`;
    return `${JSON.stringify(prefix.slice(0, at))} (${other} any)?`;
  });
  return {
    type: 'grammar',
    grammar: `root ::= ${ways.join(' | ')}\nany ::= [\\u0000-\\U0010ffff]*`,
  };
}
