import type {
  GenerateRequest,
  GenerationError,
  GenerationHandle,
  Runner,
  TokenBatch,
  TokenLogprobs,
  TokenSink,
} from '../runner/runner.ts';
import type { Tokenizer } from '../tokenizer/tokenizer.ts';
import { AnswerTimes, type AnswerTimings } from './answer-times.ts';
import { type SentToken, SentTokens } from './sent-tokens.ts';
import { StopMatcher } from './stop-matcher.ts';
import { StreamingDecoder } from './text-decoder.ts';
import { type Thinking, ThinkingParser } from './thinking-parser.ts';
import { appendCalls, type CallPiece, type CallSyntax, ToolCallParser } from './tool-call-parser.ts';

/**
 * Token batches to text: bytes are held back until they are whole characters, and text until it cannot become a stop
 * string any more. Every API's answer comes this way.
 */

export type EndReason = 'eos' | 'stop_sequence' | 'max_tokens' | 'time_limit';

/** Text that became certain with one token. */
export interface TextPiece {
  readonly text: string;
  /** Index in the answer of the token that completed the text, from 0. */
  readonly index: number;
}

export interface AnswerEnd {
  readonly reason: EndReason;
  /** The stop string that was met, as the request wrote it; null unless the reason is stop_sequence. */
  readonly stopMatched: string | null;
  /** Tokens the model generated, the one that ended the answer included. */
  readonly numTokens: number;
  /** Tokens of the prompt that were found in the KV cache when the answer was begun. */
  readonly numCachedTokens: number;
  /** Tokens of them up to the one that ended the thinking; absent: the answer could not think. */
  readonly numThinkingTokens?: number;
  /** Calls of tools whose arguments are whole; absent: none. */
  readonly numCalls?: number;
  /** The numerics id of the runner that ended it, if one with another began it. */
  readonly continuedBy?: string;
  /** If the request asked. */
  readonly timings?: AnswerTimings;
}

export interface AnswerPart {
  /** What is new of what is thought, and stands in front of all text; absent: nothing. */
  readonly thought?: string;
  readonly pieces: readonly TextPiece[];
  readonly tokenIds: readonly number[];
  /** The tokens whose text is in pieces, if the request asked for log-probabilities. Control tokens have no text. */
  readonly sentTokens?: readonly SentToken[];
  /** Those of the prompt from its second token on: on the first part, if the request asked and there are any. */
  readonly promptLogprobs?: readonly TokenLogprobs[];
  /** What is new of calls of tools, whose text is not in pieces, if the answer may have any. */
  readonly calls?: readonly CallPiece[];
  /** Calls of the answer whose arguments are whole, if it may have any. */
  readonly numWholeCalls?: number;
  /** Set on the last part. */
  readonly end?: AnswerEnd;
}

export interface AnswerOptions {
  readonly tokenizer: Tokenizer;
  /** Text that ends the answer and is not part of it. */
  readonly stop: readonly string[];
  /** A stop string that is complete with one of so many first tokens is text like any other. */
  readonly minTokens: number;
  /** How it thinks before it answers; absent: it does not. */
  readonly thinking?: Thinking | undefined;
  /** How calls of tools are written; absent: all is text. */
  readonly toolCalls?: CallSyntax | undefined;
  /** Milliseconds that only grow, for the timings of the end; undefined: nobody asked for them. */
  readonly timedBy?: (() => number) | undefined;
}

type Finish = NonNullable<TokenBatch['finish']>;

const REASONS: Record<Finish, EndReason> = {
  stop_id: 'eos',
  max_tokens: 'max_tokens',
  time_limit: 'time_limit',
};

/** Hears the text of an answer, in the turn in which its tokens come. */
export interface TextSink {
  /** The last part has `end`. */
  onPart(part: AnswerPart): void;
  /** In place of a part with `end`: a GenerationError, or what this sink or the tokenizer has thrown. Must not throw. */
  onError(error: unknown): void;
}

type EndOfTokens = Pick<AnswerEnd, 'reason' | 'stopMatched' | 'numTokens'>;

/** One request and its text: one part for each batch. A stop string that is met cancels what is left of the request. */
export class TextStream implements TokenSink {
  readonly #tokenizer: Tokenizer;
  readonly #minTokens: number;
  readonly #sink: TextSink;
  readonly #decoder: StreamingDecoder;
  /** Absent: nothing is held back. */
  readonly #matcher: StopMatcher | undefined;
  /** Absent: nothing is thought. */
  readonly #thinking: ThinkingParser | undefined;
  /** What the batch that is read has of it. */
  #thought = '';
  #numThinkingTokens = 0;
  /** Absent: there are no calls. */
  readonly #calls: ToolCallParser | undefined;
  readonly #marks: CallSyntax['marks'] | undefined;
  #tokens = new SentTokens();
  readonly #handle: GenerationHandle;
  readonly #times: AnswerTimes | undefined;
  #numCachedTokens = 0;
  #continuedBy: string | undefined;
  #isOver = false;

  /** Asks the runner; throws its GenerationError. The sink hears nothing before this has returned. */
  constructor(
    runner: Pick<Runner, 'generate'>,
    request: GenerateRequest,
    { tokenizer, stop, minTokens, thinking, toolCalls, timedBy }: AnswerOptions,
    sink: TextSink,
  ) {
    this.#tokenizer = tokenizer;
    this.#minTokens = minTokens;
    this.#sink = sink;
    this.#decoder = new StreamingDecoder(tokenizer);
    this.#matcher = stop.length === 0 ? undefined : new StopMatcher(stop);
    this.#thinking = thinking && new ThinkingParser(thinking);
    this.#calls = toolCalls && new ToolCallParser(toolCalls);
    this.#marks = toolCalls?.marks;
    this.#times = timedBy && new AnswerTimes(timedBy, request.promptIds.length);
    this.#handle = runner.generate(request, this);
  }

  /** The sink hears nothing more. */
  cancel(): void {
    this.#isOver = true;
    this.#handle.cancel();
  }

  /** Cancels it, and the sink hears this error, if it has not heard the end. */
  abort(error: GenerationError): void {
    if (this.#isOver) return;
    this.cancel();
    this.#sink.onError(error);
  }

  /** As a GenerationHandle's. */
  pause(): void {
    this.#handle.pause();
  }

  resume(): void {
    this.#handle.resume();
  }

  onTokens(batch: TokenBatch): void {
    if (this.#isOver) return;
    this.#times?.onTokens(batch);
    try {
      const read = this.#read(batch);
      const part = this.#calls === undefined ? read : withCalls(this.#calls, read);
      this.#isOver = part.end !== undefined;
      this.#sink.onPart(part);
    } catch (error) {
      // A fault of the gateway is one of this answer alone: who called goes on with those of others.
      this.cancel();
      this.#sink.onError(error);
    }
  }

  onError(error: GenerationError): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#sink.onError(error);
  }

  #read(batch: TokenBatch): AnswerPart {
    const { first, tokenIds, firstIndex, finish } = batch;
    this.#numCachedTokens = first?.numCachedTokens ?? this.#numCachedTokens;
    this.#continuedBy = batch.continuedBy ?? this.#continuedBy;
    const pieces: TextPiece[] = [];
    // The token that ends an answer is not part of its text, be it a control token or another that the request named.
    const numTexts = tokenIds.length - (finish === 'stop_id' ? 1 : 0);
    for (let offset = 0; offset < numTexts; offset++) {
      const id = tokenIds[offset] as number;
      const index = firstIndex + offset;
      const decoded = this.#marks?.get(id) ?? this.#decoder.decode(id);
      const text =
        this.#thinking === undefined ? decoded : this.#withoutThought(this.#thinking, decoded, index);
      const logprobs = batch.logprobs?.[offset];
      if (logprobs !== undefined && this.#isSaid(id, decoded, text)) this.#tokens.push(id, logprobs, text);
      const matched = this.#match(text, index, pieces);
      if (matched === undefined) continue;
      this.#handle.cancel('enough');
      const end = { reason: 'stop_sequence', stopMatched: matched, numTokens: index + 1 } as const;
      return this.#part(batch, pieces, tokenIds.slice(0, offset + 1), end);
    }
    return this.#part(batch, pieces, tokenIds, finish && this.#finish(batch, finish, pieces));
  }

  #withoutThought(parser: ThinkingParser, decoded: string, index: number): string {
    const before = parser.isThinking;
    const { thought, text } = parser.push(decoded);
    const after = parser.isThinking;
    this.#thought += thought;
    if (before === true || after === true) this.#numThinkingTokens = index + 1;
    // Those before were of the mark.
    if (before === undefined && after === true) this.#tokens = new SentTokens();
    return text;
  }

  /** Whether a token is of the text, or may turn out to be. */
  #isSaid(id: number, decoded: string, text: string): boolean {
    if (this.#tokenizer.isControl(id)) return false;
    if (text !== '' || this.#thinking === undefined) return true;
    const { isThinking } = this.#thinking;
    return isThinking === undefined || (isThinking === false && decoded === '');
  }

  #finish({ firstIndex, tokenIds }: TokenBatch, finish: Finish, pieces: TextPiece[]): EndOfTokens {
    const numTokens = firstIndex + tokenIds.length;
    const lastIndex = Math.max(numTokens - 1, 0);
    const { thought, text } = this.#thinking?.flush() ?? { thought: '', text: '' };
    this.#thought += thought;
    const stopMatched = this.#match(text + this.#decoder.flush(), lastIndex, pieces) ?? null;
    const rest = stopMatched === null ? (this.#matcher?.flush() ?? '') : '';
    if (rest !== '') pieces.push({ text: rest, index: lastIndex });
    return { reason: stopMatched === null ? REASONS[finish] : 'stop_sequence', stopMatched, numTokens };
  }

  /** The stop string that is complete with this text; what can be sent goes to pieces. */
  #match(text: string, index: number, pieces: TextPiece[]): string | undefined {
    if (this.#matcher === undefined) {
      if (text !== '') pieces.push({ text, index });
      return undefined;
    }
    const found = this.#matcher.push(text, index >= this.#minTokens);
    if (found.text !== '') pieces.push({ text: found.text, index });
    return found.matched;
  }

  #part(
    { logprobs, promptLogprobs }: TokenBatch,
    pieces: readonly TextPiece[],
    tokenIds: readonly number[],
    end: EndOfTokens | undefined,
  ): AnswerPart {
    const thought = this.#thought;
    this.#thought = '';
    if (logprobs === undefined && promptLogprobs === undefined && end === undefined)
      return thought === '' ? { pieces, tokenIds } : { thought, pieces, tokenIds };
    const common = { numCachedTokens: this.#numCachedTokens };
    return {
      ...(thought !== '' && { thought }),
      pieces,
      tokenIds,
      ...(logprobs && { sentTokens: this.#tokens.take(pieces.map(({ text }) => text).join('')) }),
      ...(promptLogprobs && { promptLogprobs }),
      ...(end && {
        end: {
          ...end,
          ...common,
          ...(this.#thinking && { numThinkingTokens: this.#numThinkingTokens }),
          ...(this.#continuedBy && { continuedBy: this.#continuedBy }),
          ...(this.#times && { timings: this.#times.timings(end.numTokens) }),
        },
      }),
    };
  }
}

/** The same part with the calls taken out of its text. */
function withCalls(parser: ToolCallParser, part: AnswerPart): AnswerPart {
  const pieces: TextPiece[] = [];
  const calls: CallPiece[] = [];
  let numUnits = 0;
  for (const { text, index } of part.pieces) {
    const parsed = parser.push(text);
    if (parsed.text !== '') pieces.push({ text: parsed.text, index });
    appendCalls(calls, parsed.calls, numUnits);
    numUnits += parsed.text.length;
  }
  const { end } = part;
  const { numWhole } = parser;
  if (end === undefined) return { ...part, pieces, calls, numWholeCalls: numWhole };
  const rest = parser.flush();
  if (rest !== '') pieces.push({ text: rest, index: end.numTokens - 1 });
  return { ...part, pieces, calls, numWholeCalls: numWhole, end: { ...end, numCalls: numWhole } };
}
