import type { Thinking } from '../generation/thinking-parser.ts';
import type { Grammar } from '../runner/runner.ts';
import { parseLosslessJson } from './json-parser.ts';
import { jsonText, RawJson } from './json-text.ts';
import { maxJsonWhitespace } from './tool-grammar.ts';
import { openSchema } from './tool-schema.ts';

/** Line breaks between the mark that ends the thinking and the answer. */
const breaks = { type: 'regex', pattern: '\\n{0,2}' };

/** A grammar that holds behind what is thought, as a structural tag of XGrammar: what is thought may be anything. */
export function grammarBehindThinking(grammar: Grammar, { format, isOpen }: Thinking): Grammar {
  const answer = formatOf(grammar);
  const begin = isOpen ? '' : format.begin;
  const thought = { type: 'tag', begin, content: { type: 'any_text' }, end: format.end };
  const thoughtful = { type: 'sequence', elements: [thought, breaks, answer] };
  // A prompt that leaves it to the model gets an answer with or without.
  const whole = isOpen ? thoughtful : { type: 'or', elements: [thoughtful, answer] };
  const source = jsonText({ type: 'structural_tag', format: whole });
  return { kind: 'structural_tag', source, strict: false };
}

function formatOf({ kind, source, strict }: Grammar): unknown {
  switch (kind) {
    case 'json_schema':
      return jsonFormat(strict ? new RawJson(source) : openSchema(parseLosslessJson(source)));
    case 'json_object':
      return jsonFormat(openSchema({ type: 'object' }));
    case 'regex':
      return { type: 'regex', pattern: source };
    case 'ebnf':
      return { type: 'grammar', grammar: source };
    case 'structural_tag':
      return new RawJson(insideOf(source));
  }
}

/** The format of a structural tag as tool-grammar.ts writes it. */
function insideOf(source: string): string {
  const head = '{"type":"structural_tag","format":';
  if (!source.startsWith(head) || !source.endsWith('}'))
    throw new Error('a structural tag is written otherwise');
  return source.slice(head.length, -1);
}

function jsonFormat(json_schema: unknown): object {
  return { type: 'json_schema', json_schema, max_whitespace_cnt: maxJsonWhitespace };
}
