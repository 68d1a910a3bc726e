/**
 * What a runner may say about one request: indices without gaps, ids of the vocabulary, no more tokens than asked for,
 * nothing behind a stop id (docs/protocol.md, "A request"). It holds between Generate and the terminal event.
 */
import type { Generate, Output } from './messages.ts';
import { ProtocolError } from './protocol-error.ts';

export class AnswerCheck {
  readonly #requestId: number;
  readonly #stopIds: ReadonlySet<number>;
  readonly #topLogprobs: number | undefined;
  readonly #vocabSize: number;
  #nextIndex: number;
  /** Tokens that may still come: what is left of max_tokens or of the context, whichever is less. */
  #room: number;
  #lastStep = 0;

  constructor(generate: Generate, limits: { vocabSize: number; maxModelLen: number }) {
    this.#requestId = generate.requestId;
    this.#stopIds = new Set(generate.stopIds);
    this.#topLogprobs = generate.topLogprobs;
    this.#vocabSize = limits.vocabSize;
    this.#nextIndex = generate.numEmitted;
    this.#room = Math.min(
      generate.maxTokens - generate.numEmitted,
      limits.maxModelLen - generate.tokenIds.length,
    );
  }

  /** Throws ProtocolError if this output cannot be the next one. step: number of the Step it came in. */
  accept(output: Output, step: number): void {
    const { tokenIds, finish } = output;
    if (step === this.#lastStep) throw this.#violation('order', 'got two outputs in one step');
    if (output.firstIndex !== this.#nextIndex) {
      throw this.#violation('order', `got index ${output.firstIndex} where ${this.#nextIndex} comes next`);
    }
    if (tokenIds.length > this.#room) {
      throw this.#violation('field', `got ${tokenIds.length} tokens where ${this.#room} were left`);
    }
    this.#checkIds(tokenIds);
    this.#checkEnd(tokenIds, finish, this.#room - tokenIds.length);
    this.#checkLogprobs(output);
    this.#lastStep = step;
    this.#nextIndex += tokenIds.length;
    this.#room -= tokenIds.length;
  }

  #checkIds(ids: readonly number[]): void {
    for (const id of ids) {
      if (id >= this.#vocabSize) {
        throw this.#violation('field', `got token ${id}; the vocabulary has ${this.#vocabSize}`);
      }
    }
  }

  #checkEnd(ids: readonly number[], finish: Output['finish'], roomLeft: number): void {
    const stopIndex = ids.findIndex((id) => this.#stopIds.has(id));
    if (stopIndex !== -1 && (stopIndex !== ids.length - 1 || finish === undefined)) {
      throw this.#violation('order', `goes on behind its stop id ${ids[stopIndex]}`);
    }
    if (finish === 'stop_id' && stopIndex === -1) {
      throw this.#violation('order', 'ended by a stop id without one');
    }
    if (finish === 'max_tokens' && roomLeft > 0) {
      throw this.#violation('order', `was cut off with ${roomLeft} tokens left`);
    }
    if (roomLeft === 0 && finish === undefined) {
      throw this.#violation('order', 'has all its tokens and no finish_reason');
    }
  }

  #checkLogprobs(output: Output): void {
    const entries = output.logprobs ?? [];
    const expected = this.#topLogprobs === undefined ? 0 : output.tokenIds.length;
    if (entries.length !== expected) {
      throw this.#violation('field', `got ${entries.length} log-probabilities where ${expected} belong`);
    }
    for (const { topIds } of entries) {
      if (topIds.length > (this.#topLogprobs ?? 0)) {
        throw this.#violation('field', `got ${topIds.length} top ids; ${this.#topLogprobs} were asked for`);
      }
      this.#checkIds(topIds);
    }
  }

  #violation(kind: 'field' | 'order', what: string): ProtocolError {
    return new ProtocolError(kind, `Request ${this.#requestId} ${what}.`);
  }
}
