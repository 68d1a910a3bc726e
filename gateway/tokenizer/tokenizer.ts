/** Text to ids and back. Implementations are exact: the ids are those the model was trained with. */
export interface Tokenizer {
  /** Where it comes from and how it works. */
  readonly kind: 'gguf-bpe';
  /** Ids are 0 to vocabSize - 1. */
  readonly vocabSize: number;
  /** Added in front of a prompt when addSpecial is set and the model asks for it. */
  readonly bosId: number | undefined;
  readonly eosId: number | undefined;

  /**
   * addSpecial: put BOS in front (and EOS behind) where the model's file says so. parseSpecial: literals of control
   * tokens, such as `<|im_start|>`, become those tokens; otherwise they are plain text.
   */
  encode(text: string, options: { addSpecial: boolean; parseSpecial: boolean }): number[];
  /**
   * encode gives at least so many ids for the text. Costs next to nothing, where encoding a megabyte without a space can
   * take half a second.
   */
  leastTokens(text: string): number;
  /** The bytes a token stands for; control tokens give their literal. RangeError for an id outside the vocabulary. */
  bytes(id: number): Uint8Array;
  /** Whether the token is a control token, which streams do not show. */
  isControl(id: number): boolean;
  /** Literals of all control tokens: what user text must not be able to forge. */
  readonly controlLiterals: readonly string[];
}
