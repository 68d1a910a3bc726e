import type { PackedTexts } from './packed-texts.ts';
import type { Stage } from './pre-tokenizers/word-splitter.ts';

/**
 * All that a tokenizer knows, as one thread hands it to another: plain values, and arrays in shared memory. A reader of
 * files makes them (gguf-tables.ts, huggingface/), BpeTokenizer works by them.
 */
export interface TokenizerTables {
  readonly kind: TokenizerKind;
  /** What each token stands for: a space as a space, whatever the file writes for one. */
  readonly texts: PackedTexts;
  /** No token stands for more. */
  readonly maxTokenBytes: number;
  /** By id: 1 for a control token. */
  readonly isControl: Uint8Array;
  /** TextIndex of the tokens that text can become. */
  readonly index: Int32Array;
  /** Id of the token for each byte; -1 where there is none. */
  readonly byteIds: Int32Array;
  readonly merges: PairMerges | ScoreMerges;
  readonly form: ByteLevelForm | SentencePieceForm;
  readonly isNfc: boolean;
  /** Tokens that are found in text as they are written, control tokens among them. */
  readonly added: AddedTokenTable;
  /** Put around a text whose special tokens are asked for. */
  readonly prefixIds: readonly number[];
  readonly suffixIds: readonly number[];
  readonly bosId: number | undefined;
  readonly eosId: number | undefined;
  /** For what there is no other token for. */
  readonly unknownId: number | undefined;
}

/** Where a tokenizer was read from, and how it works. */
export type TokenizerKind = 'gguf-bpe' | 'gguf-spm' | 'hf-json';

/** slots: of a MergeTable. */
export interface PairMerges {
  readonly kind: 'pairs';
  readonly slots: Int32Array;
}

/** Two tokens merge if a token is written like both; ranks: by id, the lowest merges first. */
export interface ScoreMerges {
  readonly kind: 'scores';
  readonly ranks: Int32Array;
}

/** Words of bytes, as GPT-2 has them. */
export interface ByteLevelForm {
  readonly kind: 'byte-level';
  readonly stages: readonly Stage[];
  /** A word that is a token as it stands is not merged from its parts. */
  readonly ignoreMerges: boolean;
}

/** Words of characters with the space in front, as SentencePiece has them. */
export interface SentencePieceForm {
  readonly kind: 'sentencepiece';
  /**
   * Where a space is put in front of text: nowhere, where the whole text begins, or behind each special token as well;
   * always, or unless a space is there.
   */
  readonly spacePrefix: 'never' | 'first-unless-space' | 'always-unless-space' | 'always';
  readonly ignoreMerges: boolean;
  /** Tokens with a space behind another character: where one stands in a text, no word ends. Undefined: too many. */
  readonly crossings: readonly Crossing[] | undefined;
}

/** The text of a token, and where in it a space is that no space is in front of. */
export interface Crossing {
  readonly text: string;
  readonly at: number;
}

export interface AddedToken {
  readonly id: number;
  readonly content: string;
  /** It has a meaning beyond text, and is read from text only on request. */
  readonly isControl: boolean;
  /** It takes the white space in front of it, or behind it, with it. */
  readonly stripsLeft: boolean;
  readonly stripsRight: boolean;
  /** It is found only where no letter or digit touches it. */
  readonly isWholeWord: boolean;
}

/** Added tokens as one thread hands them to another: all of it in shared memory. */
export interface AddedTokenTable {
  readonly contents: PackedTexts;
  readonly ids: Int32Array;
  /** Bits of each: see added-token-table.ts. */
  readonly flags: Uint8Array;
}
