/**
 * Ends the thinking of an answer that has taken all tokens it may. A runner is asked for tokens up to there; if the answer still thinks
 * then, for each token of what ends it, and then for the rest. What it is asked for follows from the tokens that have come and from
 * nothing else, so that every runner that goes on with the answer is asked for the same.
 */
import type { ThinkingLimit } from '../runner.ts';

export interface Leg {
  /** Of the answer in all, when the leg is over. */
  readonly maxTokens: number;
  /** The only one that may be drawn in it; undefined: as the request has it. */
  readonly onlyId?: number;
}

export class ThinkingEnd {
  readonly #limit: ThinkingLimit;
  /** Tokens of the answer of which it is known whether it thinks behind them. */
  #numChecked: number;
  /** Whether the answer thinks behind so many tokens; undefined: it could not be said behind any number that was checked. */
  #isThinking: boolean | undefined;

  constructor(limit: ThinkingLimit) {
    this.#limit = limit;
    this.#numChecked = limit.maxTokens - 1;
  }

  /** What comes behind these tokens, which begin with those of the last call; undefined: all the rest. */
  legBehind(emittedIds: readonly number[]): Leg | undefined {
    const { maxTokens, endIds, isThinking } = this.#limit;
    const numEmitted = emittedIds.length;
    if (numEmitted < maxTokens) return { maxTokens };
    while (this.#isThinking === undefined && this.#numChecked < numEmitted)
      this.#isThinking = isThinking(emittedIds.slice(0, ++this.#numChecked));
    // A mark that has come in part is known with the next token, or the one behind it.
    if (this.#isThinking === undefined) return { maxTokens: numEmitted + 1 };
    const onlyId = this.#isThinking ? endIds[numEmitted - this.#numChecked] : undefined;
    return onlyId === undefined ? undefined : { maxTokens: numEmitted + 1, onlyId };
  }
}
