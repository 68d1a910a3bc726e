import { createHash } from 'node:crypto';

/**
 * How the models of a family write calls of tools: `begin`, the name, `between`, the arguments, `end`. The texts in a chat
 * template show its family. docs/tools.md has a table of the families.
 */
export interface ToolCallFormat {
  readonly name: string;
  /** The beginning of the first call of an answer. The text before it is free; after it the call must follow. */
  readonly trigger: string;
  /** Written once, before the first call; begins with the trigger. Only `closing` may then follow the calls. */
  readonly opening?: string;
  readonly begin: string;
  /** The mark after the name. The id of the call, 9 letters and digits, follows it. */
  readonly idMark?: string;
  /** Empty: the name extends to the first argument or to `end`. */
  readonly between: string;
  /** With JSON arguments: begins with the brace that closes the object around them; empty if there is no such object. */
  readonly end: string;
  /** The text between two calls; undefined: a call is a whole answer. */
  readonly separator: string | undefined;
  /** The text after the last call, if there is an opening. */
  readonly closing?: string;
  /** How each argument is written; undefined: the arguments are one JSON object. */
  readonly parameter?: ParameterFormat;
  /** Whether the template accepts only ids of 9 letters and digits. */
  readonly hasShortIds?: boolean;
  /** The control tokens that the model must have if calls are written with them; undefined: the format's texts name them. */
  readonly marks?: readonly string[];
  /** Whether the template knows no tools, so that the gateway writes tools, calls and results into the texts of messages. */
  readonly isGeneric?: boolean;
}

/** How an argument is written: `begin`, its name, `between`, its value, `end`. A string is written verbatim, all else as JSON. */
export interface ParameterFormat {
  readonly begin: string;
  readonly between: string;
  readonly end: string;
}

export const hermesFormat: ToolCallFormat = {
  name: 'hermes',
  trigger: '<tool_call>',
  begin: '<tool_call>\n{"name": "',
  between: '", "arguments": ',
  end: '}\n</tool_call>',
  separator: '\n',
};

/** For templates that know no tools: see generic-tools.ts. Many models have seen this form in other models' texts. */
export const genericFormat: ToolCallFormat = { ...hermesFormat, name: 'generic', isGeneric: true };

export const llamaFormat: ToolCallFormat = {
  name: 'llama',
  trigger: '{"name": "',
  begin: '{"name": "',
  between: '", "parameters": ',
  end: '}',
  separator: undefined,
};

export const qwenXmlFormat: ToolCallFormat = {
  name: 'qwen-xml',
  trigger: '<tool_call>',
  begin: '<tool_call>\n<function=',
  between: '>\n',
  end: '</function>\n</tool_call>',
  separator: '\n',
  parameter: { begin: '<parameter=', between: '>\n', end: '\n</parameter>\n' },
};

export const glmFormat: ToolCallFormat = {
  name: 'glm',
  trigger: '<tool_call>',
  begin: '<tool_call>',
  between: '\n',
  end: '</tool_call>',
  separator: '\n',
  parameter: { begin: '<arg_key>', between: '</arg_key>\n<arg_value>', end: '</arg_value>\n' },
};

/** `glmFormat` without line breaks. */
export const glm47Format: ToolCallFormat = {
  name: 'glm-4.7',
  trigger: '<tool_call>',
  begin: '<tool_call>',
  between: '',
  end: '</tool_call>',
  separator: '',
  parameter: { begin: '<arg_key>', between: '</arg_key><arg_value>', end: '</arg_value>' },
};

/** space: the white space of the template between the mark and the list. */
export function mistralListFormat(space = ''): ToolCallFormat {
  return {
    name: 'mistral-list',
    trigger: '[TOOL_CALLS]',
    opening: `[TOOL_CALLS]${space}[`,
    begin: '{"name": "',
    between: '", "arguments": ',
    end: '}',
    separator: ', ',
    closing: ']',
    hasShortIds: true,
  };
}

export const mistralFormat: ToolCallFormat = {
  name: 'mistral',
  trigger: '[TOOL_CALLS]',
  begin: '[TOOL_CALLS]',
  between: '[ARGS]',
  end: '',
  separator: '',
  hasShortIds: true,
};

/** `mistralFormat` with an id in each call. */
export const mistralIdFormat: ToolCallFormat = { ...mistralFormat, name: 'mistral-id', idMark: '[CALL_ID]' };

/** Texts of formats that are control tokens in some models. Grammars use a spelling of these tokens that no text has. */
export const callMarks: readonly string[] = [
  '[TOOL_CALLS]',
  '[CALL_ID]',
  '[ARGS]',
  '<tool_call>',
  '</tool_call>',
];

/** The mark before a call on a line of its own. The line break stands in the template itself, or escaped in a string of it. */
const hermesMark = /<tool_call>(\\n|\n)(?!\s*\[)/;
/** Texts of templates that write calls as XML within the same mark. */
const xmlTexts = ['<function=', '<arg_key>'];
const mistralList = /\[TOOL_CALLS\]( ?)\[(?!ARGS|CALL_ID)/;
/** GLM 4.5: each key and each value has a line. */
const glmLines = /<\/arg_key>[^\S\n]*\n\s*<arg_value>/;
/** GLM 4.7, as its template describes a call to the model: no line breaks, not even after the name. */
const glmWithoutLines = /<tool_call>\{[^{}\n]+\}<arg_key>\{[^{}\n]+\}<\/arg_key><arg_value>/;
/** The id of a call stands between its name and its arguments. */
const mistralId = /\[TOOL_CALLS\][^[]*\[CALL_ID\][^[]*\[ARGS\]/;

/** Undefined if the template reads tools, but its calls are written in a way that is not known here. */
export function toolUseOf(templateSource: string): ToolCallFormat | undefined {
  const has = (text: string) => templateSource.includes(text);
  const hasKey = (key: string) => has(`"${key}"`) || has(`\\"${key}\\"`);
  if (!/\btools\b/.test(templateSource)) return genericFormat;
  if (has('[TOOL_CALLS]')) return mistralUseOf(templateSource);
  if (has('<tool_call>\\n<function=') && has('</parameter>')) return qwenXmlFormat;
  if (has('<arg_key>') && glmLines.test(templateSource)) return glmFormat;
  if (glmWithoutLines.test(templateSource)) return glm47Format;
  if (hermesMark.test(templateSource) && hasKey('arguments') && !xmlTexts.some(has)) return hermesFormat;
  if (has('ipython') && hasKey('parameters')) return llamaFormat;
  return undefined;
}

function mistralUseOf(templateSource: string): ToolCallFormat | undefined {
  if (templateSource.includes('[CALL_ID]'))
    return mistralId.test(templateSource) ? mistralIdFormat : undefined;
  if (templateSource.includes('[ARGS]')) return mistralFormat;
  const [, space] = mistralList.exec(templateSource) ?? [];
  return space === undefined ? undefined : mistralListFormat(space);
}

/** A regular expression, of all of an id. */
export const shortIdPattern = '[a-zA-Z0-9]{9}';
const SHORT_ID = new RegExp(`^${shortIdPattern}$`);

/**
 * Turns an id into one of 9 letters and digits, which Mistral's templates require. Equal ids give equal results, and an id of
 * that form stays as it is.
 */
export function shortId(id: string): string {
  if (SHORT_ID.test(id)) return id;
  // These are 36 bits. With 4,096 calls, two ids are equal in about one of 8,000 conversations.
  return createHash('sha256').update(id).digest('hex').slice(0, 9);
}
