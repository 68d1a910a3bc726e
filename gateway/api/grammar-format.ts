import type { Grammar } from '../runner/runner.ts';
import { RawJson } from './json-text.ts';
import { formatOfTag, jsonFormat } from './structural-tag.ts';
import { maxJsonWhitespace } from './tool-grammar.ts';

/** The same grammar as a format that can be part of one of XGrammar's structural tags. */
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
