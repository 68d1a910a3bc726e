import type { Task } from '../system/cooperative-scheduler.ts';
import type { TextSegment } from './added-tokens.ts';
import type { TokenizerKind } from './tables.ts';

export interface EncodeOptions {
  /** Put BOS in front, and EOS behind, where the model's file says so. */
  readonly addSpecial: boolean;
  /** Literals of control tokens, such as `<|im_start|>`, become those tokens; otherwise they are plain text. */
  readonly parseSpecial: boolean;
}

/** Text to ids and back. Implementations are exact: the ids are those the model was trained with. */
export interface Tokenizer {
  /** Where it comes from and how it works. */
  readonly kind: TokenizerKind;
  /** Ids are 0 to vocabSize - 1. */
  readonly vocabSize: number;
  /** Added in front of a prompt when addSpecial is set and the model asks for it. */
  readonly bosId: number | undefined;
  readonly eosId: number | undefined;

  /** All at once. */
  encode(text: string, options: EncodeOptions): number[];
  /** The same ids, in steps: a megabyte without a space can take half a second. */
  encodeInSteps(text: string, options: EncodeOptions): Task<number[]>;
  /** The ids of a prompt whose parts may hold different things. */
  encodeSegments(segments: readonly TextSegment[], addSpecial: boolean): Task<number[]>;
  /** encode gives at least so many ids for the text. Costs next to nothing beside it. */
  leastTokens(text: string): number;
  /** The bytes a token stands for; control tokens give their literal. RangeError for an id outside the vocabulary. */
  bytes(id: number): Uint8Array;
  /** Whether the token is a control token, which streams do not show. */
  isControl(id: number): boolean;
  /** Whether encode puts a space in front of a text that none was written in front of: decoding takes it away again. */
  readonly addsSpace: boolean;
  /** Literals of all control tokens: what user text must not be able to forge. */
  readonly controlLiterals: readonly string[];
  /** Ends what it has running beside the event loop, as soon as nobody waits for it. */
  close(): void;
}
