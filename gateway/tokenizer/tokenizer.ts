import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Caller } from '../system/caller.ts';
import type { PairTemplate, TokenizerKind } from './tables.ts';

export interface EncodeOptions {
  /** Whether to put BOS in front and EOS behind, if the model's file says so. */
  readonly addSpecial: boolean;
  /** Whether literals of control tokens, such as `<|im_start|>`, become those tokens. Otherwise they are plain text. */
  readonly parseSpecial: boolean;
}

/** Texts of at most this many UTF-16 units together are encoded at once by the caller: that takes a few milliseconds at most. */
export const shortTextChars = 8192;

export interface EncodeTextsOptions extends EncodeOptions {
  /** The most tokens that a text may have; unlimited if absent. */
  readonly maxTokens?: number;
  /** Whose turn long texts take; absent: ANONYMOUS. */
  readonly caller?: Caller | undefined;
}

/** A text that is not encoded, because it has certainly more tokens than it may have: a lower bound for their number. */
export interface TooManyTokens {
  readonly leastTokens: number;
}

/** The ids of a text. Those of a long one are in the array in which they came from the other process. */
export type EncodedText = readonly number[] | Uint32Array | TooManyTokens;

/** Encodes long texts in another process. */
export interface LongTextEncoder {
  /** As Tokenizer.encodeTexts(). */
  encode(
    texts: readonly string[],
    options: EncodeTextsOptions,
    signal?: AbortSignal,
  ): Promise<readonly EncodedText[]>;
  /** Frees its resources as soon as no caller waits for it. */
  close(): void;
}

/** Turns text into ids and back. Implementations are exact: the ids are those that the model was trained with. */
export interface Tokenizer {
  /** The kind of file that it was read from, and its algorithm. */
  readonly kind: TokenizerKind;
  /** Ids go from 0 to vocabSize - 1. */
  readonly vocabSize: number;
  /** BOS is added in front of a prompt if addSpecial is set and the model asks for it. */
  readonly bosId: number | undefined;
  readonly eosId: number | undefined;
  /** How a pair of texts is encoded; undefined: the model's file does not say. */
  readonly pair: PairTemplate | undefined;

  /** Encodes the text at once. A megabyte without a space can take half a second. */
  encode(text: string, options: EncodeOptions): number[];
  /**
   * Encodes texts of any length. The first one that exceeds maxTokens is the last result. Rejects with the signal's reason when
   * it aborts, or with UnavailableError.
   */
  encodeTexts(
    texts: readonly string[],
    options: EncodeTextsOptions,
    signal?: AbortSignal,
  ): Promise<readonly EncodedText[]>;
  /** A lower bound for the number of ids of the text. It is much cheaper than encode(). */
  leastTokens(text: string): number;
  /** The bytes that a token stands for; for a control token, its literal. Throws RangeError for an id outside the vocabulary. */
  bytes(id: number): Uint8Array;
  /** Whether the token is a control token, which answers do not show. */
  isControl(id: number): boolean;
  /** Whether encode() puts a space in front of a text that has none. Decoding removes it again. */
  readonly addsSpace: boolean;
  /** The literals of all control tokens, which a user's text must not be able to forge. */
  readonly controlLiterals: readonly string[];
  /** Frees what encodes long texts and renders the model's template, as soon as no caller waits for it. */
  close(): void;
}

/** The most ids that are copied in one turn of the event loop. */
const turnIds = 2 ** 16;

/** The ids as a list, which takes twice the memory. */
export async function numbersOf(ids: Uint32Array): Promise<number[]> {
  if (ids.length <= turnIds) return Array.from(ids);
  // An array that grows would leave copies of itself behind, several times its size.
  const numbers = new Array<number>(ids.length);
  for (let at = 0; at < ids.length; at += turnIds) {
    const end = Math.min(ids.length, at + turnIds);
    for (let i = at; i < end; i++) numbers[i] = ids[i] as number;
    await nextTurn();
  }
  return numbers;
}

/**
 * Work that is done in steps of about a millisecond, so that whoever does it can look after other work in between, or call it
 * off by return().
 */
export type Steps<Result> = Generator<undefined, Result, undefined>;

/** Does all steps at once. */
export function finish<Result>(steps: Steps<Result>): Result {
  for (;;) {
    const next = steps.next();
    if (next.done) return next.value;
  }
}
