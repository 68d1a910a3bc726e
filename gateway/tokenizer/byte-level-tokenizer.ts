/**
 * Byte-level BPE, as GPT-2 introduced it: special tokens are split out, the rest is cut into words, each word becomes
 * bytes, and bytes merge into tokens. Ids equal those of Hugging Face's tokenizers for the same vocabulary.
 */
import { finish, type Steps } from '../ops/long-work.ts';
import type { WordMerger } from './bpe.ts';
import { LiteralFinder } from './literals.ts';
import type { EncodeOptions, Tokenizer } from './tokenizer.ts';
import type { Vocabulary } from './vocabulary.ts';

/** Ordinary text repeats its words; the cache makes most of them one look-up. Emptied when it is full. */
const cachedWordsMax = 32_768;
const cachedWordCharsMax = 64;
/** Characters encoded in a step. */
const stepChars = 2048;
/** Literals of special tokens taken in a step. */
const stepLiterals = 2048;

export interface SpecialTokens {
  readonly bosId: number | undefined;
  readonly eosId: number | undefined;
  /** Whether the model was trained with BOS in front, and EOS behind, of each text. */
  readonly addBos: boolean;
  readonly addEos: boolean;
}

export class ByteLevelTokenizer implements Tokenizer {
  readonly kind = 'gguf-bpe';
  readonly #vocabulary: Vocabulary;
  readonly #words: RegExp;
  readonly #merger: WordMerger;
  readonly #special: SpecialTokens;
  readonly #userLiterals: LiteralFinder<number>;
  readonly #allLiterals: LiteralFinder<number>;
  readonly #cache = new Map<string, Int32Array>();
  readonly controlLiterals: readonly string[];
  /**
   * Bytes that no token stands for; usual vocabularies lack some that hardly occur, such as 0x04 or 0xf5. They give no
   * id, as with the tokenizer that the model was trained with.
   */
  readonly missingBytes: readonly number[];

  /** words: an expression of preTokenizers, whose matches cover any text. */
  static *of(
    vocabulary: Vocabulary,
    words: RegExp,
    merger: WordMerger,
    special: SpecialTokens,
  ): Steps<ByteLevelTokenizer> {
    const { userDefined, control } = vocabulary;
    const userLiterals = yield* LiteralFinder.of(userDefined);
    const allLiterals = yield* LiteralFinder.of([...userDefined, ...control]);
    return new ByteLevelTokenizer(vocabulary, words, merger, special, { userLiterals, allLiterals });
  }

  private constructor(
    vocabulary: Vocabulary,
    words: RegExp,
    merger: WordMerger,
    special: SpecialTokens,
    finders: Record<'userLiterals' | 'allLiterals', LiteralFinder<number>>,
  ) {
    this.#vocabulary = vocabulary;
    this.#words = words;
    this.#merger = merger;
    this.#special = special;
    this.#userLiterals = finders.userLiterals;
    this.#allLiterals = finders.allLiterals;
    this.controlLiterals = vocabulary.control.map(([literal]) => literal);
    this.missingBytes = [...vocabulary.byteIds.keys()].filter((byte) => vocabulary.byteIds[byte] === -1);
  }

  get vocabSize(): number {
    return this.#vocabulary.size;
  }

  get bosId(): number | undefined {
    return this.#special.bosId;
  }

  get eosId(): number | undefined {
    return this.#special.eosId;
  }

  encode(text: string, options: EncodeOptions): number[] {
    return finish(this.encodeInSteps(text, options));
  }

  *encodeInSteps(text: string, options: EncodeOptions): Steps<number[]> {
    const { bosId, eosId, addBos, addEos } = this.#special;
    const ids: number[] = [];
    if (options.addSpecial && addBos && bosId !== undefined) ids.push(bosId);
    const literals = options.parseSpecial ? this.#allLiterals : this.#userLiterals;
    let numChars = 0;
    let numLiterals = 0;
    for (const segment of literals.split(text)) {
      if (segment.match !== undefined) {
        ids.push(segment.match);
        if (++numLiterals % stepLiterals === 0) yield;
        continue;
      }
      for (const [word] of segment.text.matchAll(this.#words)) {
        // A spread or concat would fail, or copy, for the words of a megabyte that hostile text has.
        for (const id of this.#cache.get(word) ?? (yield* this.#encodeWord(word))) ids.push(id);
        numChars += word.length;
        if (numChars >= stepChars) {
          numChars = 0;
          yield;
        }
      }
    }
    if (options.addSpecial && addEos && eosId !== undefined) ids.push(eosId);
    return ids;
  }

  leastTokens(text: string): number {
    let bytes = Buffer.byteLength(text);
    if (this.missingBytes.length > 0) {
      for (const byte of Buffer.from(text)) if (this.#vocabulary.byteIds[byte] === -1) bytes--;
    }
    return Math.ceil(bytes / this.#vocabulary.maxTokenBytes);
  }

  bytes(id: number): Uint8Array {
    return this.#vocabulary.bytes(id);
  }

  isControl(id: number): boolean {
    return this.#vocabulary.isControl(id);
  }

  *#encodeWord(word: string): Steps<Int32Array> {
    const bytes = Buffer.from(word, 'utf8');
    const byteIds = new Int32Array(bytes.length);
    let length = 0;
    for (const byte of bytes) {
      const id = this.#vocabulary.byteIds[byte] as number;
      if (id !== -1) byteIds[length++] = id;
    }
    const ids = byteIds.slice(0, yield* this.#merger.merge(byteIds.subarray(0, length)));
    if (word.length <= cachedWordCharsMax) {
      if (this.#cache.size >= cachedWordsMax) this.#cache.clear();
      // A copy, made from bytes: a word cut out of a text would keep the whole text in memory.
      this.#cache.set(bytes.toString('utf8'), ids);
    }
    return ids;
  }
}
