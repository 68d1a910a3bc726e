import type {
  CancelReason,
  GenerateRequest,
  GenerationError,
  GenerationHandle,
  Runner,
  TokenBatch,
  TokenLogprobs,
  TokenSink,
} from '../runner/runner.ts';
import type { Tokenizer } from '../tokenizer/tokenizer.ts';
import { type AnswerTimings, timingsOf } from './answer-timings.ts';
import type { Marks } from './control-marks.ts';
import type { Receipt } from './receipt.ts';
import { StopMatcher } from './stop-matcher.ts';
import { StreamingDecoder } from './text-decoder.ts';
import { marksIn, thoughtParser } from './thinking-families.ts';
import type { Thinking, ThoughtParser } from './thinking-parser.ts';
import { appendCalls, type CallPiece, type CallSyntax, ToolCallParser } from './tool-call-parser.ts';

/**
 * Turns token batches into text. Bytes are held back until they are whole characters, and text until it cannot become a stop
 * string any more. The answers of every API are made here.
 */

export type EndReason = 'eos' | 'stop_sequence' | 'max_tokens' | 'time_limit';

/** Whether more tokens would have followed if they had been allowed. */
export function isCutShort({ reason }: Pick<AnswerEnd, 'reason'>): boolean {
  return reason === 'max_tokens' || reason === 'time_limit';
}

/** Text that became certain with one token. */
interface TextPiece {
  readonly text: string;
  /** The index, from 0, of the answer's token that completed the text. */
  readonly index: number;
}

export interface AnswerEnd {
  readonly reason: EndReason;
  /** The stop string that was found, as the request wrote it; null unless the reason is stop_sequence. */
  readonly stopMatched: string | null;
  /** The number of tokens that the model generated, including the one that ended the answer. */
  readonly numTokens: number;
  /** The number of prompt tokens that were found in the KV cache when the answer began. */
  readonly numCachedTokens: number;
  /** The number of tokens up to the one that ended the thinking. Absent if the answer could not think. */
  readonly numThinkingTokens?: number;
  /** The number of complete tool calls. Absent if there could be none. */
  readonly numCalls?: number;
  /** The numerics id of the runner that finished the answer, if a runner with another numerics id began it. */
  readonly continuedBy?: string;
  /** Present if the request asked for it. */
  readonly timings?: AnswerTimings;
  /** The same. calls/receipts.ts adds it. */
  readonly receipt?: Receipt;
}

/** The text of an answer, or a piece of it. */
export interface AnswerText {
  readonly text: string;
  /** The thinking, which comes before all text. Absent if there is none. */
  readonly thought?: string | undefined;
  /**
   * The tokens that the text is made of, if the request asked for log-probabilities. Control tokens have no text and are left out.
   */
  readonly sentTokens?: readonly SentToken[] | undefined;
  /** Tool calls or pieces of them, if the answer may have calls. They are not in the text. */
  readonly calls?: readonly CallPiece[];
}

/** What one batch of tokens has brought. */
export interface AnswerPart extends AnswerText {
  /** The text by the tokens that completed it. */
  readonly pieces: readonly TextPiece[];
  readonly tokenIds: readonly number[];
  /**
   * The log-probabilities of the prompt from its second token on. They are in the first part, if the request asked for them and
   * there are any.
   */
  readonly promptLogprobs?: readonly TokenLogprobs[];
  /** The number of complete tool calls so far, if the answer may have calls. */
  readonly numWholeCalls?: number;
  /** Present in the last part. */
  readonly end?: AnswerEnd;
}

export interface AnswerOptions {
  readonly tokenizer: Tokenizer;
  /** Strings that end the answer and are not part of it. */
  readonly stop: readonly string[];
  /** A stop string that is complete within this many first tokens is ordinary text. */
  readonly minTokens: number;
  /** How the model thinks before it answers. Absent if it does not. */
  readonly thinking?: Thinking | undefined;
  /** How tool calls are written. Absent if there are none, so that everything is text. */
  readonly toolCalls?: CallSyntax | undefined;
  /** The control tokens that are in the text where stop strings are looked for. Absent: as in marksIn(). */
  readonly marks?: Marks | undefined;
  /** Whether the end has timings. */
  readonly timings?: boolean | undefined;
  /** Absent if a time limit fails the answer. Answers to one client's request share it. */
  readonly partial?: PartialAnswers | undefined;
}

/**
 * Answers that a time limit ends with what there is, once one of them has begun. Before that they fail with TIMEOUT.
 */
export class PartialAnswers {
  hasBegun = false;
}

type Finish = NonNullable<TokenBatch['finish']>;

const REASONS: Record<Finish, EndReason> = {
  stop_id: 'eos',
  max_tokens: 'max_tokens',
  time_limit: 'time_limit',
};

/** Gets the text of an answer, in the same turn of the event loop as its tokens. */
export interface TextSink {
  /** The last part has `end`. */
  onPart(part: AnswerPart): void;
  /**
   * Called in place of a last part, with a GenerationError or with what this sink or the tokenizer has thrown. Must not throw.
   */
  onError(error: unknown): void;
}

type EndOfTokens = Pick<AnswerEnd, 'reason' | 'stopMatched' | 'numTokens'>;

/** Runs one request and makes text of its answer, one part for each batch. A stop string cancels the rest of the request. */
export class TextStream implements TokenSink {
  readonly #tokenizer: Tokenizer;
  readonly #minTokens: number;
  readonly #sink: TextSink;
  readonly #decoder: StreamingDecoder;
  /** Absent if there are no stop strings. */
  readonly #matcher: StopMatcher | undefined;
  /** Absent if the answer cannot think. */
  readonly #thinking: ThoughtParser | undefined;
  /** The thinking that the current batch has brought. */
  #thought = '';
  #numThinkingTokens = 0;
  /** The last tokens, of which it is not known yet whether they belong to the thinking. */
  #numUndecided = 0;
  /** Absent if the answer can have no tool calls. */
  readonly #calls: ToolCallParser | undefined;
  #tokens = new SentTokens();
  readonly #handle: GenerationHandle;
  readonly #request: GenerateRequest;
  readonly #hasTimings: boolean;
  readonly #partial: PartialAnswers | undefined;
  /** The number of tokens that have come. */
  #numTokens = 0;
  #numCachedTokens = 0;
  #continuedBy: string | undefined;
  #isOver = false;

  /** Sends the request to the runner and throws the runner's GenerationError. The sink is not called before this returns. */
  constructor(
    runner: Pick<Runner, 'generate'>,
    request: GenerateRequest,
    options: AnswerOptions,
    sink: TextSink,
  ) {
    const { tokenizer, stop, minTokens, thinking, toolCalls, timings = false, partial } = options;
    this.#tokenizer = tokenizer;
    this.#minTokens = minTokens;
    this.#sink = sink;
    this.#decoder = new StreamingDecoder(tokenizer, false, options.marks ?? marksIn(options));
    this.#matcher = stop.length === 0 ? undefined : new StopMatcher(stop);
    this.#thinking = thinking && thoughtParser(thinking);
    this.#calls = toolCalls && new ToolCallParser(toolCalls);
    this.#request = request;
    this.#hasTimings = timings;
    this.#partial = partial;
    this.#handle = runner.generate(request, this);
  }

  /** Cancels the request. The sink is not called any more. */
  cancel(reason?: CancelReason): void {
    this.#isOver = true;
    this.#handle.cancel(reason);
  }

  /** Cancels the request and reports this error to the sink, unless the answer has ended. */
  abort(error: unknown): void {
    if (this.#isOver) return;
    this.cancel();
    this.#sink.onError(error);
  }

  /** See GenerationHandle.pause(). */
  pause(): void {
    this.#handle.pause();
  }

  resume(): void {
    this.#handle.resume();
  }

  onTokens(batch: TokenBatch): void {
    if (this.#isOver) return;
    this.#numTokens = batch.firstIndex + batch.tokenIds.length;
    if (this.#partial !== undefined) this.#partial.hasBegun ||= this.#numTokens > 0;
    try {
      const read = this.#read(batch);
      const part = this.#calls === undefined ? read : withCalls(this.#calls, read);
      this.#isOver = part.end !== undefined;
      this.#sink.onPart(part);
    } catch (error) {
      // An error in the gateway ends this answer only: the caller continues with the answers of other requests.
      this.cancel();
      this.#sink.onError(error);
    }
  }

  onError(error: GenerationError): void {
    if (this.#isOver) return;
    if (error.code === 'TIMEOUT' && this.#partial?.hasBegun) {
      const logprobs = this.#request.topLogprobs === undefined ? {} : { logprobs: [] };
      this.onTokens({ firstIndex: this.#numTokens, tokenIds: [], ...logprobs, finish: 'time_limit' });
      return;
    }
    this.#isOver = true;
    this.#sink.onError(error);
  }

  #read(batch: TokenBatch): AnswerPart {
    const { first, tokenIds, firstIndex, finish } = batch;
    this.#numCachedTokens = first?.numCachedTokens ?? this.#numCachedTokens;
    this.#continuedBy = batch.continuedBy ?? this.#continuedBy;
    const pieces: TextPiece[] = [];
    // The token that ends an answer (a control token or one that the request named) is not part of its text.
    const numTexts = tokenIds.length - (finish === 'stop_id' ? 1 : 0);
    for (let offset = 0; offset < numTexts; offset++) {
      const id = tokenIds[offset] as number;
      const index = firstIndex + offset;
      const decoded = this.#decoder.decode(id);
      const text = this.#thinking === undefined ? decoded : this.#withoutThought(this.#thinking, decoded);
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

  #withoutThought(parser: ThoughtParser, decoded: string): string {
    const { isThinking: before, holdsText } = parser;
    const { thought, text } = parser.push(decoded);
    const after = parser.isThinking;
    this.#thought += thought;
    this.#numUndecided++;
    if (before === true || after === true) this.#numThinkingTokens += this.#numUndecided;
    if (before === true || after !== undefined) this.#numUndecided = 0;
    // The earlier tokens were those of the mark that begins the thinking.
    if (holdsText && after === true) this.#tokens = new SentTokens();
    return text;
  }

  /** Whether a token belongs to the text, or may still turn out to belong to it. */
  #isSaid(id: number, decoded: string, text: string): boolean {
    if (this.#tokenizer.isControl(id)) return false;
    if (text !== '' || this.#thinking === undefined) return true;
    const { isThinking, holdsText } = this.#thinking;
    return holdsText || (isThinking === false && decoded === '');
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

  /** Adds the text that can be sent to `pieces`. Returns the stop string that is complete with this text, if any. */
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
    const text = textOf(pieces);
    const thought = this.#thought;
    this.#thought = '';
    if (logprobs === undefined && promptLogprobs === undefined && end === undefined)
      return thought === '' ? { text, pieces, tokenIds } : { thought, text, pieces, tokenIds };
    return {
      ...(thought !== '' && { thought }),
      ...{ text, pieces, tokenIds },
      ...(logprobs && { sentTokens: this.#tokens.take(text) }),
      ...(promptLogprobs && { promptLogprobs }),
      ...(end && {
        end: {
          ...end,
          numCachedTokens: this.#numCachedTokens,
          ...(this.#thinking && { numThinkingTokens: this.#numThinkingTokens }),
          ...(this.#continuedBy && { continuedBy: this.#continuedBy }),
          ...this.#timings(end.numTokens),
        },
      }),
    };
  }

  #timings(numTokens: number): Pick<AnswerEnd, 'timings'> {
    const { times } = this.#handle;
    if (!this.#hasTimings || times === undefined) return {};
    return { timings: timingsOf(times, this.#request.promptIds.length, numTokens) };
  }
}

/** The same part with tool calls taken out of its text. */
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
  const rest = end === undefined ? '' : parser.flush();
  if (end !== undefined && rest !== '') pieces.push({ text: rest, index: end.numTokens - 1 });
  const found = { text: textOf(pieces), pieces, calls, numWholeCalls: numWhole };
  return { ...part, ...found, ...(end && { end: { ...end, numCalls: numWhole } }) };
}

function textOf(pieces: readonly TextPiece[]): string {
  if (pieces.length === 1) return pieces[0]?.text ?? '';
  let text = '';
  for (const piece of pieces) text += piece.text;
  return text;
}

/** A token whose text was sent, either of the answer or of a prompt that is echoed in front of it. */
export interface SentToken {
  readonly id: number;
  /** The number of Unicode characters in front of the character that the token begins in. */
  readonly textOffset: number;
  /** Absent for the first token of a prompt. */
  readonly logprobs: TokenLogprobs | undefined;
}

interface WaitingToken extends SentToken {
  /** The same offset in UTF-16 units. */
  readonly startUnits: number;
}

/**
 * Finds the tokens that belong to text that was sent. A token counts as sent when the first unit of its text is sent: a token
 * that a stop string cuts in two is included, a token whose text is held back or never sent is not. The waiting tokens are at
 * most those of one held stop string and of one unfinished character.
 */
export class SentTokens {
  readonly #waiting: WaitingToken[] = [];
  #decodedUnits = 0;
  #decodedCharacters = 0;
  #sentUnits = 0;

  /** Adds a token and the text that became complete with it. */
  push(id: number, logprobs: TokenLogprobs, text: string): void {
    const startUnits = this.#decodedUnits;
    this.#waiting.push({ id, textOffset: this.#decodedCharacters, logprobs, startUnits });
    this.#decodedUnits += text.length;
    for (const _ of text) this.#decodedCharacters++;
  }

  /** Returns the tokens that are sent with `text`, the next text of the answer. */
  take(text: string): SentToken[] {
    this.#sentUnits += text.length;
    const held = this.#waiting.findIndex(({ startUnits }) => startUnits >= this.#sentUnits);
    const sent = this.#waiting.splice(0, held < 0 ? this.#waiting.length : held);
    return sent.map(({ id, textOffset, logprobs }) => ({ id, textOffset, logprobs }));
  }
}
