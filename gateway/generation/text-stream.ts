import type { TokenBatch, TokenLogprobs } from '../runner/runner.ts';
import type { Tokenizer } from '../tokenizer/tokenizer.ts';
import { type SentToken, SentTokens } from './sent-tokens.ts';
import { StopMatcher } from './stop-matcher.ts';
import { StreamingDecoder } from './text-decoder.ts';

/**
 * Token batches to text: bytes are held back until they are whole characters, and text until it cannot become a stop
 * string any more. Every API reads its answer here.
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
  /** The numerics id of the runner that ended it, if one with another began it. */
  readonly continuedBy?: string;
}

export interface AnswerPart {
  readonly pieces: readonly TextPiece[];
  readonly tokenIds: readonly number[];
  /** The tokens whose text is in pieces, if the request asked for log-probabilities. Control tokens have no text. */
  readonly sentTokens?: readonly SentToken[];
  /** Those of the prompt from its second token on: on the first part, if the request asked and there are any. */
  readonly promptLogprobs?: readonly TokenLogprobs[];
  /** Set on the last part. */
  readonly end?: AnswerEnd;
}

export interface AnswerOptions {
  readonly tokenizer: Tokenizer;
  /** Text that ends the answer and is not part of it. */
  readonly stop: readonly string[];
  /** A stop string that is complete with one of so many first tokens is text like any other. */
  readonly minTokens: number;
}

const REASONS: Record<NonNullable<TokenBatch['finish']>, EndReason> = {
  stop_id: 'eos',
  max_tokens: 'max_tokens',
  time_limit: 'time_limit',
};

type EndOfTokens = Pick<AnswerEnd, 'reason' | 'stopMatched' | 'numTokens'>;

/** One part for each batch; leaving early, or meeting a stop string, closes `batches` and so cancels the request. */
export async function* readAnswer(
  batches: AsyncIterable<TokenBatch>,
  { tokenizer, stop, minTokens }: AnswerOptions,
): AsyncGenerator<AnswerPart, void, undefined> {
  const decoder = new StreamingDecoder(tokenizer);
  const matcher = new StopMatcher(stop);
  const tokens = new SentTokens();
  let numCachedTokens = 0;
  let continuedBy: string | undefined;
  for await (const batch of batches) {
    numCachedTokens = batch.first?.numCachedTokens ?? numCachedTokens;
    continuedBy = batch.continuedBy ?? continuedBy;
    const { promptLogprobs } = batch;
    const pieces: TextPiece[] = [];
    const push = (text: string, index: number): string | undefined => {
      const found = matcher.push(text, index >= minTokens);
      if (found.text !== '') pieces.push({ text: found.text, index });
      return found.matched;
    };
    const part = (tokenIds: readonly number[], end?: EndOfTokens): AnswerPart => ({
      pieces,
      tokenIds,
      ...(batch.logprobs && { sentTokens: tokens.take(pieces.map(({ text }) => text).join('')) }),
      ...(promptLogprobs && { promptLogprobs }),
      ...(end && { end: { ...end, numCachedTokens, ...(continuedBy && { continuedBy }) } }),
    });
    // The token that ends an answer is not part of its text, be it a control token or another that the request named.
    const numTexts = batch.tokenIds.length - (batch.finish === 'stop_id' ? 1 : 0);
    for (const [offset, id] of batch.tokenIds.slice(0, numTexts).entries()) {
      const index = batch.firstIndex + offset;
      const text = decoder.decode(id);
      const logprobs = batch.logprobs?.[offset];
      if (logprobs !== undefined && !tokenizer.isControl(id)) tokens.push(id, logprobs, text);
      const matched = push(text, index);
      if (matched !== undefined) {
        const end = { stopMatched: matched, numTokens: index + 1 };
        yield part(batch.tokenIds.slice(0, offset + 1), { reason: 'stop_sequence', ...end });
        return;
      }
    }
    if (batch.finish === undefined) {
      yield part(batch.tokenIds);
      continue;
    }
    const numTokens = batch.firstIndex + batch.tokenIds.length;
    const lastIndex = Math.max(numTokens - 1, 0);
    const stopMatched = push(decoder.flush(), lastIndex) ?? null;
    const rest = stopMatched === null ? matcher.flush() : '';
    if (rest !== '') pieces.push({ text: rest, index: lastIndex });
    const reason = stopMatched === null ? REASONS[batch.finish] : 'stop_sequence';
    yield part(batch.tokenIds, { reason, stopMatched, numTokens });
    return;
  }
}
