/**
 * How the models of a family write a call of a tool: `begin`, the name, `between`, the arguments as JSON, `end`. Which family
 * a chat template is of is told by the texts in it. docs/tools.md has these as a table.
 */
export interface ToolCallFormat {
  readonly name: string;
  /** The text is free until this has come; then a call follows. The beginning of `begin`. */
  readonly trigger: string;
  readonly begin: string;
  readonly between: string;
  /** Begins with the bracket that closes the object which has the arguments. */
  readonly end: string;
  /** Between two calls; undefined: a call is a whole answer. */
  readonly separator: string | undefined;
}

export const hermesFormat: ToolCallFormat = {
  name: 'hermes',
  trigger: '<tool_call>',
  begin: '<tool_call>\n{"name": "',
  between: '", "arguments": ',
  end: '}\n</tool_call>',
  separator: '\n',
};

export const llamaFormat: ToolCallFormat = {
  name: 'llama',
  trigger: '{"name": "',
  begin: '{"name": "',
  between: '", "parameters": ',
  end: '}',
  separator: undefined,
};

/** none: the template looks at no tools. unknown: it does, and has its calls written in a way that is not known here. */
export type ToolUse = ToolCallFormat | 'none' | 'unknown';

/** `{"name": …}` on a line of its own behind the mark, as a template writes it, or a string in it. */
const hermesMark = /<tool_call>(\\n|\n)(?!\s*\[)/;
/** Of calls that are written as XML in the same mark, by Qwen3-Coder's and GLM's kin. */
const xmlTexts = ['<function=', '<arg_key>'];

export function toolUseOf(templateSource: string): ToolUse {
  const has = (text: string) => templateSource.includes(text);
  const hasKey = (key: string) => has(`"${key}"`) || has(`\\"${key}\\"`);
  if (!/\btools\b/.test(templateSource)) return 'none';
  if (hermesMark.test(templateSource) && hasKey('arguments') && !xmlTexts.some(has)) return hermesFormat;
  if (has('ipython') && hasKey('parameters')) return llamaFormat;
  return 'unknown';
}
