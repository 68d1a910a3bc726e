import type { Thinking } from '../generation/thinking-parser.ts';
import { jsonText, RawJson } from '../json/json-values.ts';
import type { Grammar } from '../runner/runner.ts';

/** Structural tags of XGrammar: grammars that are composed of formats. */

const HEAD = '{"type":"structural_tag","format":';

export function structuralTag(format: unknown): Grammar {
  return { kind: 'structural_tag', source: jsonText({ type: 'structural_tag', format }), strict: false };
}

/** The format that structuralTag was given, as JSON. */
function formatOfTag(source: string): string {
  if (!source.startsWith(HEAD) || !source.endsWith('}'))
    throw new Error('a structural tag is written otherwise');
  return source.slice(HEAD.length, -1);
}

/** maxWhitespace: the most white space in one place of the value. */
export function jsonFormat(schema: unknown, maxWhitespace: number): object {
  return { type: 'json_schema', json_schema: schema, max_whitespace_cnt: maxWhitespace };
}

/**
 * The most white space in one place of JSON, as in runner/grammar. Without a bound, a small model can write white space
 * for ever.
 */
export const maxJsonWhitespace = 20;

/** The grammar as a format that can be part of a structural tag. */
export function formatOfGrammar({ kind, source }: Grammar): object {
  switch (kind) {
    case 'json_schema':
      return jsonFormat(new RawJson(source), maxJsonWhitespace);
    case 'json_object':
      return jsonFormat({ additionalProperties: true, type: 'object' }, maxJsonWhitespace);
    case 'regex':
      return { type: 'regex', pattern: source };
    case 'ebnf':
      return { type: 'grammar', grammar: source };
    case 'structural_tag':
      return new RawJson(formatOfTag(source));
  }
}

/** Line breaks between the mark that ends the thinking and the answer. */
const breaks = { type: 'regex', pattern: '\\n{0,2}' };

/** A structural tag that allows any thinking, and applies the grammar to the answer after it. */
export function grammarAfterThinking(grammar: Grammar, { format, isOpen }: Thinking): Grammar {
  const answer = formatOfGrammar(grammar);
  const begin = isOpen ? '' : format.begin;
  const thought = { type: 'tag', begin, content: { type: 'any_text' }, end: format.end };
  const thoughtful = { type: 'sequence', elements: [thought, breaks, answer] };
  // If the prompt has not begun the thinking, the model may also answer without it.
  const whole = isOpen ? thoughtful : { type: 'or', elements: [thoughtful, answer] };
  return structuralTag(whole);
}
