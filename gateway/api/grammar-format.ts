import type { Grammar } from '../runner/runner.ts';
import { parseLosslessJson } from './json-parser.ts';
import { RawJson } from './json-text.ts';
import { maxJsonWhitespace } from './tool-grammar.ts';
import { openSchema } from './tool-schema.ts';

/** What a grammar allows, as a format that may be a part of one of XGrammar's structural tags. */
export function formatOfGrammar({ kind, source, strict }: Grammar): object {
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
