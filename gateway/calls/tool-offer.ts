import type { Context } from 'hono';
import { ApiError, shown, unsupported } from '../errors/api-error.ts';
import { markOf, marksOf } from '../generation/control-marks.ts';
import { tokenBytesOf } from '../generation/token-bytes.ts';
import type { CallSyntax } from '../generation/tool-call-parser.ts';
import type { Model } from '../models/model.ts';
import type { ToolDefinition } from '../prompt/chat-template.ts';
import { harmonyFormat } from '../prompt/harmony-format.ts';
import { callMarks, type ToolCallFormat } from '../prompt/tool-call-format.ts';
import { type GenerateRequest, type Grammar, maxGrammarBytes } from '../runner/runner.ts';
import { harmonyAnswer } from './harmony-grammar.ts';
import { templateOf } from './prompt.ts';
import { formatOfGrammar, maxJsonWhitespace } from './structural-tag.ts';
import { type OfferedTool, toolGrammar } from './tool-grammar.ts';
import { kindsOf, UnwritableSchema, WrittenParameters } from './written-arguments.ts';

/**
 * Tools as a request offers them to a model: their definitions for the template, the grammar of the calls, and how calls
 * are read.
 */

export interface Tool extends OfferedTool {
  /** The tool as the model's template gets it. */
  readonly definition: ToolDefinition;
}

export type ToolChoice = 'none' | 'auto' | 'required' | { readonly name: string };

export interface ToolParams {
  readonly tools: readonly Tool[];
  /** A name must be the name of one of the tools. */
  readonly choice: ToolChoice;
  /** The names of the tools that may be called; undefined if all may. The template gets the other tools too. */
  readonly allowed?: readonly string[];
  readonly isParallel: boolean;
}

export interface ToolOffer {
  readonly definitions: readonly ToolDefinition[];
  readonly grammar: Grammar;
  /** Undefined if the answer cannot have calls. */
  readonly calls?: CallSyntax;
}

type Asked = Pick<Model, 'id' | 'architecture' | 'chatTemplate' | 'tokenizer'>;

/**
 * Makes the offer. Throws a 400 if the model has no template, or one that has tools called in an unknown format, and if
 * the grammar is too large. form: the grammar of an answer that is not a call; undefined if that may be any text. With
 * the choice "none" the returned grammar does not include form, and the caller must use form itself.
 */
export function offerTools(
  { tools, choice, allowed, isParallel }: ToolParams,
  model: Asked,
  form?: Grammar,
): ToolOffer {
  const { format, marks } = writtenBy(model);
  const isNamed = typeof choice !== 'string';
  const allowedNames = isNamed ? [choice.name] : allowed;
  const callable = tools.filter(({ name }) => allowedNames?.includes(name) ?? true);
  const written = writtenParameters(format, callable);
  const isEither = form !== undefined && choice === 'auto';
  const names = isEither ? { names: callable.map(({ name }) => name) } : {};
  const syntax: CallSyntax = { format, marks, kindOf: kindsOf(written), ...names };
  const grammarOf = format.name === harmonyFormat.name ? harmonyAnswer : toolGrammar;
  const grammar = grammarOf(syntax, {
    tools: callable,
    written,
    choice: isNamed ? 'named' : choice,
    isParallel,
    text: form && formatOfGrammar(form),
  });
  const numBytes = Buffer.byteLength(grammar.source);
  if (numBytes > maxGrammarBytes) {
    const what = isEither ? 'tools, together with the format of an answer without a tool call,' : 'tools';
    const message = `${what} must have at most ${maxGrammarBytes} bytes as a grammar (got ${numBytes})`;
    throw new ApiError({ status: 400, code: 'invalid_request', message, param: 'tools' });
  }
  const definitions = tools.map(({ definition }) => definition);
  return { definitions, grammar, ...(choice === 'none' ? {} : { calls: syntax }) };
}

/** The tools' parameters by name; empty if all arguments of a call are one JSON object. */
function writtenParameters(
  { parameter }: ToolCallFormat,
  tools: readonly Tool[],
): ReadonlyMap<string, WrittenParameters> {
  if (parameter === undefined) return new Map();
  return new Map(
    tools.map(({ name, parameters }) => {
      try {
        return [name, new WrittenParameters(parameter, parameters, maxJsonWhitespace)];
      } catch (error) {
        if (!(error instanceof UnwritableSchema)) throw error;
        throw unsupported('tools', `The schema of the parameters of the tool "${name}" ${error.message}.`);
      }
    }),
  );
}

/** The header's value `generic` says that the gateway describes the tools to the model, whose template knows none. */
const TOOLS_HEADER = 'x-runnel-tools';

export function tellGenericTools(c: Context, { chatTemplate }: Asked): void {
  if (chatTemplate?.toolUse?.isGeneric) c.header(TOOLS_HEADER, chatTemplate.toolUse.name);
}

/** Whether tools can be offered to the model. */
export function hasTools({ chatTemplate, tokenizer }: Asked): boolean {
  const toolUse = chatTemplate?.toolUse;
  return toolUse !== undefined && faultOf(toolUse, tokenizer) === undefined;
}

/** Why calls could not be read; undefined if they can. Control tokens are not in an answer's text unless they are marks. */
function faultOf(format: ToolCallFormat, { controlLiterals }: Asked['tokenizer']): string | undefined {
  const texts = [...textsOf(format), ...Object.values(format.parameter ?? {})];
  const hidden = controlLiterals.find(
    (literal) => !callMarks.includes(literal) && texts.some((text) => text.includes(literal)),
  );
  if (hidden !== undefined) return `writes ${hidden} as a control token, which answers do not show as text`;
  const missing = format.marks?.find((literal) => !controlLiterals.includes(literal));
  return missing && `has no control token ${missing}, with which its chat template writes calls`;
}

/** The format of the model's calls, in which each control token is replaced by its mark. */
function writtenBy(model: Asked): Pick<CallSyntax, 'format' | 'marks'> {
  const { tokenizer } = model;
  const format = formatOf(model);
  const literals =
    format.marks ??
    callMarks.filter(
      (literal) =>
        tokenizer.controlLiterals.includes(literal) && textsOf(format).some((text) => text.includes(literal)),
    );
  const marked = (text: unknown) =>
    typeof text === 'string'
      ? literals.reduce((sum, literal) => sum.replaceAll(literal, markOf(literal)), text)
      : text;
  const written = Object.entries(format).map(([name, text]) => [name, marked(text)]);
  return { format: Object.fromEntries(written) as ToolCallFormat, marks: marksOf(literals, tokenizer) };
}

function textsOf({ trigger, begin, idMark = '', between, end }: ToolCallFormat): string[] {
  return [trigger, begin, idMark, between, end];
}

function formatOf(model: Asked): ToolCallFormat {
  const { id, tokenizer } = model;
  const { toolUse } = templateOf(model);
  if (toolUse === undefined)
    throw unsupported(
      'tools',
      `The chat template of the model "${shown(id)}" calls tools in an unsupported format; ` +
        'supported are those of Hermes and Qwen (JSON in <tool_call>), of Qwen3-Coder and GLM (XML in it), ' +
        'of Mistral ([TOOL_CALLS]), of Llama 3.1 (JSON with "parameters") and of gpt-oss (<|call|>).',
    );
  const fault = faultOf(toolUse, tokenizer);
  if (fault === undefined) return toolUse;
  throw unsupported('tools', `The model "${shown(id)}" ${fault}: its tool calls cannot be read.`);
}

/** The form of an answer. field: its name in the body. */
export interface AnswerForm {
  readonly field: string;
  readonly grammar: Grammar;
}

/**
 * Grammar and vocabulary of an answer, for the runner: the form alone if no tool can be called, otherwise the offer's, which
 * includes the form. Throws a 400 if the model cannot follow a grammar.
 */
export async function answerStructure(
  format: AnswerForm | undefined,
  offer: ToolOffer | undefined,
  { id, tokenizer }: Pick<Model, 'id' | 'tokenizer'>,
  stopIds: readonly number[],
): Promise<Pick<GenerateRequest, 'grammar' | 'vocabulary'>> {
  const form = offer?.calls === undefined && format !== undefined ? format : offer;
  if (form === undefined) return {};
  const { grammar } = form;
  const name = 'field' in form ? form.field : 'tools';
  if (stopIds.length === 0) {
    const message = `${name} needs a token that ends the answer, and the model "${id}" has none; name one in stop_token_ids.`;
    throw new ApiError({ status: 400, code: 'invalid_request', message, param: name });
  }
  try {
    return { grammar, vocabulary: await tokenBytesOf(tokenizer) };
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    throw unsupported(name, `${name} cannot be followed with this model: ${error.message}`, error);
  }
}
