import { ApiError } from '../errors/api-error.ts';
import { shown } from '../errors/shown.ts';
import type { Model } from '../models/model.ts';
import type { ToolDefinition } from '../prompt/chat-template.ts';
import type { ToolCallFormat } from '../prompt/tool-call-format.ts';
import { type Grammar, maxGrammarBytes } from '../runner/runner.ts';
import { type OfferedTool, toolGrammar } from './tool-grammar.ts';

/** Tools as a request offers them to a model: what its template is told, how it may call them, and how its calls are read. */

export interface Tool extends OfferedTool {
  /** What the model's template is told of it. */
  readonly definition: ToolDefinition;
}

export type ToolChoice = 'none' | 'auto' | 'required' | { readonly name: string };

export interface ToolWish {
  readonly tools: readonly Tool[];
  /** One with a name is of a tool that is among them. */
  readonly choice: ToolChoice;
  readonly isParallel: boolean;
}

export interface ToolOffer {
  readonly definitions: readonly ToolDefinition[];
  readonly grammar: Grammar;
  /** Absent where no call can come. */
  readonly format?: ToolCallFormat;
}

type Asked = Pick<Model, 'id' | 'chatTemplate' | 'tokenizer'>;

/** 400 where the model's template has no tools called, or in a way that is not known here, and where they are too many. */
export function offerTools({ tools, choice, isParallel }: ToolWish, model: Asked): ToolOffer {
  const format = formatOf(model);
  const isNamed = typeof choice !== 'string';
  const grammar = toolGrammar(format, {
    tools: isNamed ? tools.filter(({ name }) => name === choice.name) : tools,
    choice: isNamed ? 'named' : choice,
    isParallel,
  });
  const numBytes = Buffer.byteLength(grammar.source);
  if (numBytes > maxGrammarBytes) {
    const message = `tools must have at most ${maxGrammarBytes} bytes as a grammar (got ${numBytes})`;
    throw new ApiError({ status: 400, code: 'invalid_request', message, param: 'tools' });
  }
  const definitions = tools.map(({ definition }) => definition);
  return { definitions, grammar, ...(choice === 'none' ? {} : { format }) };
}

/** 400 where the model's template would leave out what `field` has of tools. */
export function requireToolTemplate(model: Asked, field: 'messages' | 'tools'): void {
  if (model.chatTemplate?.toolUse !== 'none') return;
  throw noTools(model, field, field === 'tools' ? 'tools' : 'messages with calls of tools');
}

/** Whether tools can be offered to it. */
export function hasTools({ chatTemplate, tokenizer }: Asked): boolean {
  const toolUse = chatTemplate?.toolUse ?? 'none';
  return typeof toolUse !== 'string' && controlTokenIn(toolUse, tokenizer) === undefined;
}

/** One that stands in its calls, and so is not in the text of an answer. */
function controlTokenIn(
  { begin, end }: ToolCallFormat,
  { controlLiterals }: Asked['tokenizer'],
): string | undefined {
  return controlLiterals.find((literal) => begin.includes(literal) || end.includes(literal));
}

function formatOf(model: Asked): ToolCallFormat {
  const { id, chatTemplate, tokenizer } = model;
  const toolUse = chatTemplate?.toolUse ?? 'none';
  if (toolUse === 'none') throw noTools(model, 'tools', 'tools');
  if (toolUse === 'unknown')
    throw refusal(
      'tools',
      `The chat template of the model "${shown(id)}" has tools called in a way that is not known here; ` +
        'known are those of Hermes and Qwen (JSON in <tool_call>) and of Llama 3.1 (JSON with "parameters").',
    );
  const control = controlTokenIn(toolUse, tokenizer);
  if (control === undefined) return toolUse;
  throw refusal(
    'tools',
    `The model "${shown(id)}" writes ${control} as a control token, which is not in the text of an answer: its calls of tools cannot be read.`,
  );
}

function noTools({ id }: Asked, field: string, what: string): ApiError {
  const message = `The chat template of the model "${shown(id)}" knows no tools; ask a model whose template does, or send no ${what}.`;
  return refusal(field, message);
}

function refusal(param: string, message: string): ApiError {
  return new ApiError({ status: 400, code: 'unsupported_parameter', message, param });
}
