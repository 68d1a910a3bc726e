/** Checks of what a runner sends, which depend on earlier messages (docs/protocol.md, "Neither end trusts the other"). */
import type { TokenLogprobs } from '../runner.ts';
import { ProtocolError } from './frame.ts';
import type { Embedding, Output, PromptLogprobs } from './from-runner.ts';
import type { Embed, Generate } from './to-runner.ts';

/**
 * Checks what a runner sends about one request, between Generate and the terminal event: indices without gaps, ids within the
 * vocabulary, no more tokens than asked for, nothing after a stop id (docs/protocol.md, "A request").
 */
export class AnswerCheck {
  readonly #asked: Omit<Generate, 'tokenIds'>;
  readonly #stopIds: ReadonlySet<number>;
  /** Empty: all ids are allowed. */
  readonly #allowedIds: ReadonlySet<number>;
  readonly #bannedIds: ReadonlySet<number>;
  readonly #vocabSize: number;
  readonly #numTokens: number;
  readonly #numPromptTokens: number;
  #nextPromptIndex = 1;
  #hasOutput = false;
  #nextIndex: number;
  /** Tokens that may still come: the rest of max_tokens or of the context, whichever is less. */
  #room: number;
  #lastStep = 0;

  constructor({ tokenIds, ...asked }: Generate, limits: { vocabSize: number; maxModelLen: number }) {
    const { stopIds, sampling, numEmitted, maxTokens } = asked;
    this.#asked = asked;
    this.#stopIds = new Set(stopIds);
    this.#allowedIds = new Set(sampling.allowedTokenIds);
    this.#bannedIds = new Set(sampling.bannedTokenIds);
    this.#numTokens = tokenIds.length;
    this.#numPromptTokens = tokenIds.length - numEmitted;
    this.#vocabSize = limits.vocabSize;
    this.#nextIndex = numEmitted;
    this.#room = Math.min(maxTokens - numEmitted, limits.maxModelLen - tokenIds.length);
  }

  get numTokens(): number {
    return this.#numPromptTokens + this.#nextIndex;
  }

  /** Throws ProtocolError if this frame cannot come next. */
  acceptPromptLogprobs({ firstIndex, logprobs }: PromptLogprobs): void {
    if (this.#asked.promptLogprobs === undefined || this.#hasOutput)
      throw this.#violation('order', "got its prompt's log-probabilities when none were due");
    if (firstIndex !== this.#nextPromptIndex)
      throw this.#violation(
        'order',
        `got log-probabilities of prompt token ${firstIndex} where ${this.#nextPromptIndex} comes next`,
      );
    const numLeft = this.#numPromptTokens - firstIndex;
    if (logprobs.length > numLeft)
      throw this.#violation(
        'field',
        `got log-probabilities of ${logprobs.length} prompt tokens where ${numLeft} were left`,
      );
    this.#checkTops(logprobs, this.#asked.promptLogprobs);
    this.#nextPromptIndex += logprobs.length;
  }

  acceptEmbedding(): never {
    throw this.#violation('order', 'got a vector where it asked for tokens');
  }

  /** Throws ProtocolError if this output cannot come next. step: number of the Step that it came in. */
  accept(output: Output, step: number): void {
    const { tokenIds, finish } = output;
    if (step === this.#lastStep) throw this.#violation('order', 'got two outputs in one step');
    if (output.firstIndex !== this.#nextIndex)
      throw this.#violation('order', `got index ${output.firstIndex} where ${this.#nextIndex} comes next`);
    if (tokenIds.length > this.#room)
      throw this.#violation('field', `got ${tokenIds.length} tokens where ${this.#room} were left`);
    this.#checkFirst(output);
    this.#checkIds(tokenIds);
    this.#checkMasks(tokenIds);
    this.#checkEnd(tokenIds, finish, this.#room - tokenIds.length);
    this.#checkLogprobs(output);
    this.#lastStep = step;
    this.#hasOutput = true;
    this.#nextIndex += tokenIds.length;
    this.#room -= tokenIds.length;
  }

  #checkFirst({ first }: Output): void {
    if ((first === undefined) !== this.#hasOutput) {
      const what = this.#hasOutput ? 'got a second first output' : 'got its first output without its times';
      throw this.#violation('order', what);
    }
    if (first !== undefined && first.numCachedTokens >= this.#numTokens)
      throw this.#violation(
        'field',
        `found ${first.numCachedTokens} of ${this.#numTokens} tokens in the cache`,
      );
    const isMissing =
      this.#asked.promptLogprobs !== undefined && this.#nextPromptIndex < this.#numPromptTokens;
    if (isMissing) {
      const missing = `prompt token ${this.#nextPromptIndex}`;
      throw this.#violation('order', `got its first output without the log-probabilities of ${missing}`);
    }
  }

  #checkMasks(ids: readonly number[]): void {
    const isBelowMin = this.#nextIndex < this.#asked.minTokens;
    if (this.#bannedIds.size === 0 && this.#allowedIds.size === 0 && !isBelowMin) return;
    const isMasked = (id: number, offset: number): boolean =>
      this.#bannedIds.has(id) ||
      (this.#allowedIds.size > 0 && !this.#allowedIds.has(id)) ||
      (this.#nextIndex + offset < this.#asked.minTokens && this.#stopIds.has(id));
    const masked = ids.find(isMasked);
    if (masked !== undefined) throw this.#violation('field', `got token ${masked}, which it must not draw`);
  }

  #checkIds(ids: readonly number[]): void {
    for (const id of ids) {
      if (id >= this.#vocabSize)
        throw this.#violation('field', `got token ${id}; the vocabulary has ${this.#vocabSize}`);
    }
  }

  #checkEnd(ids: readonly number[], finish: Output['finish'], roomLeft: number): void {
    let stopIndex = 0;
    while (stopIndex < ids.length && !this.#stopIds.has(ids[stopIndex] as number)) stopIndex++;
    if (stopIndex === ids.length) stopIndex = -1;
    if (stopIndex !== -1 && (stopIndex !== ids.length - 1 || finish === undefined))
      throw this.#violation('order', `goes on after its stop id ${ids[stopIndex]}`);
    if (finish === 'stop_id' && stopIndex === -1)
      throw this.#violation('order', 'ended by a stop id without one');
    if (finish === 'max_tokens' && roomLeft > 0)
      throw this.#violation('order', `was cut off with ${roomLeft} tokens left`);
    if (roomLeft === 0 && finish === undefined)
      throw this.#violation('order', 'has all its tokens and no finish_reason');
  }

  #checkLogprobs(output: Output): void {
    if (output.logprobs === undefined && this.#asked.topLogprobs === undefined) return;
    const entries = output.logprobs ?? [];
    const expected = this.#asked.topLogprobs === undefined ? 0 : output.tokenIds.length;
    if (entries.length !== expected)
      throw this.#violation('field', `got ${entries.length} log-probabilities where ${expected} belong`);
    this.#checkTops(entries, this.#asked.topLogprobs ?? 0);
  }

  #checkTops(entries: readonly TokenLogprobs[], numAsked: number): void {
    for (const { topIds } of entries) {
      if (topIds.length > numAsked)
        throw this.#violation('field', `got ${topIds.length} top ids; ${numAsked} were asked for`);
      this.#checkIds(topIds);
    }
  }

  #violation(kind: 'field' | 'order', what: string): ProtocolError {
    return new ProtocolError(kind, `Request ${this.#asked.requestId} ${what}.`);
  }
}

/** Checks what a runner sends about an embedding request: exactly one vector, or an error. */
export class EmbeddingCheck {
  readonly #requestId: number;
  readonly #size: number;
  readonly numTokens: number;

  constructor(
    { requestId, tokenIds, pooling }: Embed,
    { embeddingSize }: { readonly embeddingSize: number },
  ) {
    this.#requestId = requestId;
    this.#size = pooling === 'rank' ? 1 : embeddingSize;
    this.numTokens = tokenIds.length;
  }

  /** Throws ProtocolError if this cannot be the request's vector. */
  acceptEmbedding({ values, first: { numCachedTokens } }: Embedding): void {
    if (values.length !== this.#size)
      throw this.#violation('field', `got ${values.length} values where ${this.#size} belong`);
    if (numCachedTokens >= this.numTokens)
      throw this.#violation('field', `found ${numCachedTokens} of ${this.numTokens} tokens in the cache`);
  }

  accept(): never {
    throw this.#violation('order', 'got a token where it asked for a vector');
  }

  acceptPromptLogprobs(): never {
    throw this.#violation('order', "got its prompt's log-probabilities where it asked for a vector");
  }

  #violation(kind: 'field' | 'order', what: string): ProtocolError {
    return new ProtocolError(kind, `Request ${this.#requestId} ${what}.`);
  }
}

export const maxNoticesPerSecond = 100;
/** Most of these messages by an honest runner that a pipe holds when it was not read for a while. */
export const maxNoticesAtOnce = 4096;

/**
 * Bounds the rate of messages that a runner sends of its own accord: heartbeats and statistics come once a second, progress
 * ten times. A runner that sends far more would keep the gateway busy for nothing.
 */
export class NoticeRate {
  readonly #now: () => number;
  /** How many messages may come at once now; grows with time up to maxNoticesAtOnce. */
  #left = maxNoticesAtOnce;
  #countedAt: number;

  /** now: a monotonic clock in milliseconds. */
  constructor(now: () => number) {
    this.#now = now;
    this.#countedAt = now();
  }

  /** Counts one message. Throws ProtocolError if it is one too many. */
  count(name: string): void {
    const now = this.#now();
    const earned = ((now - this.#countedAt) / 1000) * maxNoticesPerSecond;
    this.#left = Math.min(maxNoticesAtOnce, this.#left + earned) - 1;
    this.#countedAt = now;
    if (this.#left >= 0) return;
    throw new ProtocolError(
      'rate',
      `The runner sent ${name} again and again: more than ${maxNoticesAtOnce}, faster than ${maxNoticesPerSecond} a second.`,
    );
  }
}
