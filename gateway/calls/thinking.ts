import { shown, unsupported } from '../errors/api-error.ts';
import { marksOf } from '../generation/control-marks.ts';
import { decodeAll } from '../generation/text-decoder.ts';
import { isThinkingAfter, thinkingLimit } from '../generation/thinking-families.ts';
import type { Thinking } from '../generation/thinking-parser.ts';
import type { Model } from '../models/model.ts';
import type { ChatMessage, RenderOptions } from '../prompt/chat-template.ts';
import { type ChannelFormat, promptEndOf, type ThinkingFormat } from '../prompt/thinking-format.ts';
import type { GenerateRequest, Grammar } from '../runner/runner.ts';
import { harmonyAfterThinking, harmonyText } from './harmony-grammar.ts';
import { type ContextLimit, renderChat } from './prompt.ts';
import { grammarAfterThinking } from './structural-tag.ts';

/** Models that think before they answer: whether an answer thinks, for how many tokens, and how its thinking is found. */

/** What a request of any API asks of thinking. */
export interface ThinkingParams {
  /** Undefined: the template decides. */
  readonly isOn?: boolean | undefined;
  /** For templates that read an effort. */
  readonly effort?: string | undefined;
  /** Tokens that may be thought; at least 1. Undefined: only the length of the answer bounds them. */
  readonly maxTokens?: number | undefined;
  /** The field of the request that only a model that thinks can obey; undefined if the request has none. */
  readonly field?: string | undefined;
  /** Fields of the request that a model that does not think ignores. */
  readonly hints?: readonly string[];
}

type Asked = Pick<Model, 'id' | 'chatTemplate' | 'tokenizer'>;

/** A prompt, and how the answer to it thinks. */
export interface ThinkingPrompt {
  readonly promptIds: readonly number[];
  /** Absent if the answer does not think. */
  readonly thinking?: Thinking;
}

/** The number of tokens at a prompt's end that are searched for marks. */
const TAIL_TOKENS = 32;

/** Calls renderChat() with the variables that tell the template about thinking. Throws a 400 if the model cannot obey them. */
export async function renderThinking(
  model: Model,
  limit: ContextLimit,
  messages: readonly ChatMessage[],
  options: RenderOptions,
  params: ThinkingParams,
  field: string,
): Promise<ThinkingPrompt> {
  const format = formatOf(model);
  if (format === undefined) {
    requireNothing(model, params);
    return { promptIds: await renderChat(model, limit, messages, options, field) };
  }
  const variables = { ...variablesOf(params, format), ...options.variables };
  const promptIds = await renderChat(model, limit, messages, { ...options, variables }, field);
  const thinking = thinkingAfter(model, promptIds);
  if (thinking === undefined) return { promptIds };
  const goesOn = options.continuesLast === true || options.addsGenerationPrompt === false;
  if (params.isOn !== false || goesOn) return { promptIds, thinking };
  if (format.channels !== undefined) {
    // Before a call no header can be chosen here. The grammar of the tools has no place for thinking then.
    if (options.tools !== undefined) return { promptIds, thinking };
    const closing = thinking.isOpen ? format.end : format.channels.answerBegin;
    const ids = [...promptIds, ...idsOf(model, closing)];
    return { promptIds: ids, thinking: { format, isOpen: false, isClosed: true } };
  }
  // The thinking ends as templates with a switch write it, also where the template has begun it.
  const begun = thinking.isOpen ? tailOf(model, promptIds) : format.begin;
  const closing = `${begun.endsWith('\n') ? '\n' : '\n\n'}${format.end}\n\n`;
  return { promptIds: [...promptIds, ...idsOf(model, thinking.isOpen ? closing : begun + closing)] };
}

/** How the answer to an earlier rendered prompt thinks; undefined if it does not. */
export function thinkingAfter(model: Asked, promptIds: readonly number[]): Thinking | undefined {
  const format = formatOf(model);
  if (format === undefined) return undefined;
  if (format.channels !== undefined) {
    // In the last tokens no header may have begun: the text of a message then goes on.
    const asText = { format, isOpen: false, isClosed: true };
    const isThinking = isThinkingAfter(asText, promptIds.slice(-TAIL_TOKENS), model.tokenizer);
    return { format, isOpen: isThinking === true, ...(isThinking === false && { isClosed: true }) };
  }
  const end = promptEndOf(format, tailOf(model, promptIds));
  return end === 'closed' ? undefined : { format, isOpen: end === 'open' };
}

function tailOf({ tokenizer }: Asked, promptIds: readonly number[]): string {
  return decodeAll(tokenizer, promptIds.slice(-TAIL_TOKENS));
}

/** The variables by which templates know these settings. chat_template_kwargs of the request override them. */
function variablesOf(
  { isOn, effort }: ThinkingParams,
  { channels }: ThinkingFormat,
): Record<string, unknown> {
  const wanted = isOn === false && channels !== undefined ? 'none' : effort;
  return {
    ...(isOn === undefined ? {} : { enable_thinking: isOn, thinking: isOn }),
    ...(wanted === undefined ? {} : { reasoning_effort: channels?.efforts[wanted] ?? wanted }),
  };
}

type Structure = Pick<GenerateRequest, 'grammar' | 'vocabulary'>;

/**
 * Fits the request to the runner to an answer that thinks. structure: grammar and vocabulary of the answer after the thinking. form:
 * the form of its text, if the request has one. Throws a 400 if the answer cannot have both.
 */
export function withThinkingConstraints(
  structure: Structure,
  { thinking }: ThinkingPrompt,
  params: ThinkingParams,
  model: Asked,
  form?: Grammar,
): Structure & Pick<GenerateRequest, 'thinkingLimit'> {
  if (thinking === undefined || (thinking.isClosed && structure.grammar === form)) return structure;
  const { channels } = formatOf(model) ?? {};
  const { grammar, end } =
    channels === undefined
      ? { grammar: structure.grammar && grammarAfterThinking(structure.grammar, thinking), end: undefined }
      : inChannels(structure, thinking, params, { model, channels, form });
  const { maxTokens } = params;
  const limit = maxTokens && { maxTokens, endIds: idsOf(model, end ?? thinking.format.end), thinking };
  return {
    ...structure,
    ...(grammar && { grammar }),
    ...(limit && { thinkingLimit: thinkingLimit(limit, model.tokenizer) }),
  };
}

/** The grammar of all messages of an answer, and what ends a thought before it. */
function inChannels(
  { grammar }: Structure,
  thinking: Thinking,
  { isOn, maxTokens }: ThinkingParams,
  { model, channels, form }: { model: Asked; channels: ChannelFormat; form: Grammar | undefined },
): { readonly grammar?: Grammar; readonly end?: string } {
  if (grammar === undefined) return {};
  if (thinking.isClosed) {
    const message = `"${shown(model.id)}" calls tools in messages of their own, so tools cannot be offered for an answer that continues a message. Leave tools out, or end messages with one of the user.`;
    throw unsupported('tools', message);
  }
  const marks = marksOf(channels.marks, model.tokenizer);
  const answer = grammar === form ? harmonyText(marks, form) : grammar;
  // A thought that its budget has ended is the only one: the grammar then leaves an answer or a call.
  const thoughts = isOn === false ? 'none' : maxTokens === undefined ? 'any' : 'one';
  return { grammar: harmonyAfterThinking(marks, answer, thinking, thoughts), end: channels.messageEnd };
}

function idsOf({ tokenizer }: Asked, text: string): number[] {
  return tokenizer.encode(text, { addSpecial: false, parseSpecial: true });
}

/**
 * How the model marks its thinking; undefined if its marks are control tokens, which the text of its answers does not show, or if it
 * lacks those of its channels.
 */
function formatOf({ chatTemplate, tokenizer }: Asked): ThinkingFormat | undefined {
  const format = chatTemplate?.thinking;
  if (format?.channels !== undefined)
    return format.channels.marks.every((mark) => tokenizer.controlLiterals.includes(mark))
      ? format
      : undefined;
  const isHidden = tokenizer.controlLiterals.some(
    (literal) => literal === format?.begin || literal === format?.end,
  );
  return isHidden ? undefined : format;
}

/** Whether the answers of the model may have thinking that is recognised. */
export function hasThinking(model: Asked): boolean {
  return formatOf(model) !== undefined;
}

/** The fields about thinking that the model ignores, because it does not think. */
export function ignoredHints(model: Asked, { hints = [] }: ThinkingParams): readonly string[] {
  return hasThinking(model) ? [] : hints;
}

/** Throws a 400 if the request has a field that only a model that thinks can obey. */
export function requireNothing({ id }: Asked, { field }: ThinkingParams): void {
  if (field === undefined) return;
  const message = `"${shown(id)}" does not support reasoning, so ${field} cannot be used: its chat template has no <think> and </think>. Leave the field out.`;
  throw unsupported(field, message);
}
