import type { TextIndex } from './packed-texts.ts';
import { WordSplitter } from './pre-tokenizers/word-splitter.ts';
import type { ByteLevelForm, TokenizerTables } from './tables.ts';
import type { WordMerger } from './word-merger.ts';
import { Words } from './words.ts';

/**
 * Encodes words of byte-level BPE, which GPT-2 introduced: text is cut into words, each word becomes the tokens of its UTF-8
 * bytes, and these merge.
 */
export class ByteLevelWords extends Words {
  readonly #splitter: WordSplitter;

  constructor(tables: TokenizerTables, form: ByteLevelForm, index: TextIndex, merger: WordMerger) {
    super(tables, index, merger);
    this.#splitter = new WordSplitter(form.stages);
  }

  protected override pieces(text: string): Iterable<string> {
    return this.#splitter.pieces(text);
  }

  protected override wordEnd(piece: string, at: number): number {
    return this.#splitter.wordEnd(piece, at);
  }

  /** A byte without a token gives no symbol, as with the tokenizer that the model was trained with. */
  protected override symbols(_: string, bytes: Uint8Array, length: number, ids: Int32Array): number {
    let count = 0;
    for (let i = 0; i < length; i++) {
      const id = this.byteIds[bytes[i] as number] as number;
      if (id !== -1) ids[count++] = id;
    }
    return count;
  }

  protected override push(ids: Int32Array, count: number, out: number[]): void {
    for (let i = 0; i < count; i++) out.push(ids[i] as number);
  }
}
