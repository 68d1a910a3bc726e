import type { TokenLogprobs } from '../runner/runner.ts';

/** A token of the answer that was sent, or of a prompt that is sent before it. */
export interface SentToken {
  readonly id: number;
  /** Unicode characters of the answer in front of the one that the token begins in. */
  readonly textOffset: number;
  /** Absent for the first token of a prompt. */
  readonly logprobs: TokenLogprobs | undefined;
}

interface WaitingToken extends SentToken {
  /** The same offset in UTF-16 units. */
  readonly startUnits: number;
}

/**
 * Which tokens belong to text that was sent. A token counts as sent with the first of its text: one that a stop string
 * cuts in two is there, one whose text is held back or never sent is not. Waiting are at most the tokens of one held
 * stop string and of one unfinished character.
 */
export class SentTokens {
  readonly #waiting: WaitingToken[] = [];
  #decodedUnits = 0;
  #decodedCharacters = 0;
  #sentUnits = 0;

  /** A token, and the text that became complete with it. */
  push(id: number, logprobs: TokenLogprobs, text: string): void {
    const startUnits = this.#decodedUnits;
    this.#waiting.push({ id, textOffset: this.#decodedCharacters, logprobs, startUnits });
    this.#decodedUnits += text.length;
    for (const _ of text) this.#decodedCharacters++;
  }

  /** The tokens that are sent with this text, the next of the answer. */
  take(text: string): SentToken[] {
    this.#sentUnits += text.length;
    const held = this.#waiting.findIndex(({ startUnits }) => startUnits >= this.#sentUnits);
    const sent = this.#waiting.splice(0, held < 0 ? this.#waiting.length : held);
    return sent.map(({ id, textOffset, logprobs }) => ({ id, textOffset, logprobs }));
  }
}
