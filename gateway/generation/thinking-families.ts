import { harmonyMarks, harmonyThinking } from '../prompt/harmony-format.ts';
import type { ThinkingLimit } from '../runner/runner.ts';
import type { Tokenizer } from '../tokenizer/tokenizer.ts';
import { type Marks, marksOf } from './control-marks.ts';
import { HarmonyParser } from './harmony-parser.ts';
import { StreamingDecoder } from './text-decoder.ts';
import { type Thinking, ThinkingParser, type ThoughtParser } from './thinking-parser.ts';
import type { CallSyntax } from './tool-call-parser.ts';

/** The parser of each family of formats, and what is told of an answer's thinking by it. */

export function thoughtParser(thinking: Thinking): ThoughtParser {
  return hasChannels(thinking) ? new HarmonyParser(thinking) : new ThinkingParser(thinking);
}

/** The control tokens that the parser of the thinking sees; undefined: none. */
export function thoughtMarks(thinking: Thinking, tokenizer: Pick<Tokenizer, 'encode'>): Marks | undefined {
  return hasChannels(thinking) ? marksOf(Object.values(harmonyMarks), tokenizer) : undefined;
}

/** How an answer is read. It decides in which text stop strings are looked for. */
export interface Reading {
  readonly tokenizer: Pick<Tokenizer, 'encode'>;
  readonly thinking?: Thinking | undefined;
  readonly toolCalls?: Pick<CallSyntax, 'marks'> | undefined;
}

/** The control tokens that the parsers of an answer see, and that are text to its stop strings; undefined: none. */
export function marksIn({ tokenizer, thinking, toolCalls }: Reading): Marks | undefined {
  return (thinking && thoughtMarks(thinking, tokenizer)) ?? toolCalls?.marks;
}

/** How the parser of an answer reads its thinking; undefined: all is text. */
export function readAs(
  thinking: Thinking | undefined,
  { isInText, readsCalls }: { readonly isInText: boolean; readonly readsCalls: boolean },
): Thinking | undefined {
  if (thinking === undefined || !hasChannels(thinking)) return isInText ? undefined : thinking;
  return { ...thinking, ...(isInText && { isInText }), ...(readsCalls && { readsCalls }) };
}

/** A journal and receipts keep only the marks of a format, which are those of one family. */
function hasChannels({ format }: Thinking): boolean {
  return format.begin === harmonyThinking.begin;
}

/** Whether an answer that began with these tokens is thinking now; undefined: not known yet. */
export function isThinkingAfter(
  thinking: Thinking,
  tokenIds: readonly number[],
  tokenizer: Tokenizer,
): boolean | undefined {
  const parser = thoughtParser(thinking);
  const decoder = new StreamingDecoder(tokenizer, true, thoughtMarks(thinking, tokenizer));
  for (const id of tokenIds) parser.push(decoder.decode(id));
  return parser.isThinking;
}

/** A limit of thinking as data, from which any process makes the same limit. */
export type ThinkingLimitFacts = Omit<ThinkingLimit, 'isThinking'>;

export function thinkingLimit(
  { maxTokens, endIds, thinking: { format, isOpen } }: ThinkingLimitFacts,
  tokenizer: Tokenizer,
): ThinkingLimit {
  const thinking = { format: { begin: format.begin, end: format.end }, isOpen };
  const isThinking = (tokenIds: readonly number[]) => isThinkingAfter(thinking, tokenIds, tokenizer);
  return { maxTokens, endIds, thinking, isThinking };
}
