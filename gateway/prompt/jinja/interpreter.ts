import { Scope } from './expression-parser.ts';
import { globalsAt } from './globals.ts';
import { tokensOf } from './lexer.ts';
import { outputOf, StatementParser } from './statement-parser.ts';
import { fromJson } from './values.ts';

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
