import type { ToolCallFormat } from '../prompt/tool-call-format.ts';
import type { Grammar } from '../runner/runner.ts';
import { jsonText } from './json-text.ts';

/** What an answer may be when tools are offered, as a structural tag of XGrammar. docs/tools.md says which is when. */

/** A tool that an answer may call. */
export interface OfferedTool {
  readonly name: string;
  /** A JSON Schema of the arguments. */
  readonly parameters: object;
}

/** none: no call. auto: text, calls, or both. required: calls and nothing else. named: one call of the only tool. */
export type CallChoice = 'none' | 'auto' | 'required' | 'named';

export interface Calling {
  readonly tools: readonly OfferedTool[];
  readonly choice: CallChoice;
  /** Whether there may be more calls than one. */
  readonly isParallel: boolean;
}

/** As runner/grammar bounds it in all JSON: a small model would otherwise go on with it for ever. */
export const maxJsonWhitespace = 20;

export function toolGrammar(format: ToolCallFormat, calling: Calling): Grammar {
  const source = jsonText({ type: 'structural_tag', format: answerOf(format, calling) });
  return { kind: 'structural_tag', source, strict: false };
}

function answerOf(format: ToolCallFormat, { tools, choice, isParallel }: Calling): object {
  const { trigger, separator } = format;
  const tags = tools.map((tool) => tagOf(format, tool));
  const stops_after_first = { stop_after_first: !isParallel };
  if (choice === 'named') return tags[0] as object;
  if (separator === undefined) {
    if (choice === 'required') return anyOf(tags);
    const text = textNotBeginningWith(trigger);
    return choice === 'none' ? text : anyOf([...tags, text]);
  }
  switch (choice) {
    case 'none':
      return { type: 'any_text', excludes: [trigger] };
    case 'auto':
      return { type: 'triggered_tags', triggers: [trigger], tags, ...stops_after_first };
    case 'required':
      return { type: 'tags_with_separator', tags, separator, at_least_one: true, ...stops_after_first };
  }
}

function tagOf({ begin, between, end }: ToolCallFormat, { name, parameters }: OfferedTool): object {
  const content = {
    type: 'json_schema',
    json_schema: parameters,
    max_whitespace_cnt: maxJsonWhitespace,
  };
  return { type: 'tag', begin: begin + name + between, content, end };
}

function anyOf(elements: readonly object[]): object {
  return { type: 'or', elements };
}

/** Text that goes another way somewhere in the first characters, or ends in them. prefix: ASCII. */
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
