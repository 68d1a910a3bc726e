import type { Caller } from '../system/caller.ts';
import type { TokenizerKind } from './tables.ts';

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

/** The ids of a text, or a lower bound for their number if they are certainly more than maxTokens. */
export type EncodedText = readonly number[] | { readonly leastTokens: number };

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
