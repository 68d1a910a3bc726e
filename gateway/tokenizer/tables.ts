import type { PackedTexts } from './packed-texts.ts';
import type { BertRules } from './pre-tokenizers/bert.ts';
import type { Stage } from './pre-tokenizers/word-splitter.ts';

/**
 * All data of a tokenizer in a form that one process can send to another: plain values and typed arrays. The file
 * readers (gguf-tables.ts, huggingface/) make it, and BpeTokenizer uses it.
 */
export interface TokenizerTables {
  readonly kind: TokenizerKind;
  /** The text that each token stands for. A space is a space here, whatever the file writes for it. */
  readonly texts: PackedTexts;
  /** The largest number of bytes that a token stands for. */
  readonly maxTokenBytes: number;
  /** For each id: 1 if it is a control token. */
  readonly isControl: Uint8Array;
  /** The slots of the TextIndex of tokens that text can become. */
  readonly index: Int32Array;
  /** The token id of each byte; -1 if the byte has no token. */
  readonly byteIds: Int32Array;
  /** Empty with WordPiece and Unigram. */
  readonly merges: PairMerges | ScoreMerges;
  readonly form: ByteLevelForm | SentencePieceForm | WordPieceForm | UnigramForm;
  readonly isNfc: boolean;
  /** Tokens whose literals are found in text, including control tokens. */
  readonly added: AddedTokenTable;
  /** The ids put in front of a text, and behind it, when special tokens are asked for. */
  readonly prefixIds: readonly number[];
  readonly suffixIds: readonly number[];
  /** How a pair of texts is encoded; undefined: the file does not say. */
  readonly pair: PairTemplate | undefined;
  readonly bosId: number | undefined;
  readonly eosId: number | undefined;
  /** The token of text that no other token covers. */
  readonly unknownId: number | undefined;
}

/** The ids in front of a pair of texts, between the two, and behind them. */
export interface PairTemplate {
  readonly prefixIds: readonly number[];
  readonly betweenIds: readonly number[];
  readonly suffixIds: readonly number[];
  /** Whether the second text, and what is behind it, has tokens of the second type. */
  readonly hasTypes: boolean;
}

/** The kind of file that the tokenizer was read from, and its algorithm. */
export type TokenizerKind = 'gguf-bpe' | 'gguf-spm' | 'gguf-wpm' | 'gguf-ugm' | 'hf-json';

/** slots: those of a MergeTable. */
interface PairMerges {
  readonly kind: 'pairs';
  readonly slots: Int32Array;
}

/** Two tokens merge if a token is written like both together. ranks: the rank of each id; the lowest merges first. */
interface ScoreMerges {
  readonly kind: 'scores';
  readonly ranks: Int32Array;
}

/** Text is cut into words, and words into bytes, as in GPT-2. */
export interface ByteLevelForm {
  readonly kind: 'byte-level';
  readonly stages: readonly Stage[];
  /** Whether a whole word that is a token becomes that token without merging. */
  readonly ignoreMerges: boolean;
}

/** Text is cut into words of characters with the spaces in front, as in SentencePiece. */
export interface SentencePieceForm {
  readonly kind: 'sentencepiece';
  /**
   * Where a space is put in front of text: nowhere; at the beginning of the whole text ("first"); or also behind each added
   * token ("always"). "unless-space": only if the text does not begin with a space.
   */
  readonly spacePrefix: 'never' | 'first-unless-space' | 'always-unless-space' | 'always';
  readonly ignoreMerges: boolean;
  /** Tokens with a space behind another character; no word ends inside of one. Undefined if there are too many of them. */
  readonly crossings: readonly Crossing[] | undefined;
}

/** Text is normalized and cut into words as in BERT, and words into the longest pieces. */
export interface WordPieceForm extends BertRules {
  readonly kind: 'wordpiece';
}

/** Text is normalized, cut into words with the space in front, and each word written in the tokens with the best scores. */
export interface UnigramForm {
  readonly kind: 'unigram';
  readonly changes: readonly TextChange[];
  /** Of the change `charsmap`. It is not in the list because typed arrays are sent as members of objects. */
  readonly charsmap: Charsmap | undefined;
  readonly spacePrefix: SentencePieceForm['spacePrefix'];
  /** Whether each space begins a word. Otherwise a whole text is one word. */
  readonly splits: boolean;
  /** The score of each id. */
  readonly scores: Float64Array;
  /** The score of a character without a token. */
  readonly unknownScore: number;
}

/** SentencePiece's compiled normalizer: sequences of characters, and the texts that replace them. */
export interface Charsmap {
  /** A double-array trie over UTF-8 bytes (Darts-clone). Its values are offsets into `texts`. */
  readonly units: Uint32Array;
  /** The replacements in UTF-8, each with a zero byte behind it. */
  readonly texts: Uint8Array;
}

/**
 * A change of a text. charsmap: by SentencePiece's compiled normalizer. replace: each occurrence of a literal. spaces: each run
 * of two or more spaces. strip: no white space at the beginning (left) or the end. words: no white space around the text, and
 * one space between words, or the mark with which the next word begins.
 */
export type TextChange =
  | { readonly kind: 'charsmap' | 'words' }
  | { readonly kind: 'replace'; readonly from: string; readonly to: string }
  | { readonly kind: 'spaces'; readonly to: string }
  | { readonly kind: 'strip'; readonly left: boolean; readonly right: boolean };

/** A token's text and the index of a space in it that follows another character. */
export interface Crossing {
  readonly text: string;
  readonly at: number;
}

export interface AddedToken {
  readonly id: number;
  readonly content: string;
  /** Whether it has a meaning beyond text. Control tokens are found in text only on request. */
  readonly isControl: boolean;
  /** Whether the white space in front of it (stripsLeft) or behind it (stripsRight) is removed. */
  readonly stripsLeft: boolean;
  readonly stripsRight: boolean;
  /** Whether it is found only if no letter or digit touches it. */
  readonly isWholeWord: boolean;
}

/** Added tokens in the form in which the model's reader sends them. */
export interface AddedTokenTable {
  readonly contents: PackedTexts;
  readonly ids: Int32Array;
  /** The flag bits of each token; see added-tokens.ts. */
  readonly flags: Uint8Array;
}

/** The character that SentencePiece's vocabularies write for a space. */
export const spaceMark = '▁';

/** A vocabulary cannot be used. The message says what is wrong, without a full stop at its end. */
export class TokenizerError extends Error {
  override readonly name = 'TokenizerError';
}
