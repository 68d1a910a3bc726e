/**
 * Encodes words of byte-level BPE, which GPT-2 introduced: text is cut into words, each word becomes the tokens of its UTF-8
 * bytes, and these merge.
 */

import type { TextIndex } from './packed-texts.ts';
import { WordSplitter } from './pre-tokenizers/word-splitter.ts';
import type { ByteLevelForm, TokenizerTables } from './tables.ts';
import type { Steps } from './tokenizer.ts';
import { WordCache } from './word-cache.ts';
import type { WordMerger } from './word-merger.ts';

/** The number of UTF-16 units that are encoded in one step. */
const stepChars = 2048;
/** The most UTF-8 bytes that one UTF-16 unit takes. */
const unitBytes = 3;
/** Words of at most this many UTF-16 units share a buffer. */
const keptUnits = 1024;

export class ByteLevelWords {
  readonly #splitter: WordSplitter;
  readonly #ignoreMerges: boolean;
  readonly #byteIds: Int32Array;
  readonly #index: TextIndex;
  readonly #merger: WordMerger;
  readonly #cache = new WordCache();
  readonly #bytes = Buffer.alloc(keptUnits * unitBytes);
  readonly #ids = new Int32Array(keptUnits * unitBytes);

  constructor(tables: TokenizerTables, form: ByteLevelForm, index: TextIndex, merger: WordMerger) {
    this.#splitter = new WordSplitter(form.stages);
    this.#ignoreMerges = form.ignoreMerges;
    this.#byteIds = tables.byteIds;
    this.#index = index;
    this.#merger = merger;
  }

  /** Appends the ids of a text between added tokens to `out`. */
  *encode(text: string, out: number[]): Steps<void> {
    let numChars = 0;
    for (const piece of this.#splitter.pieces(text)) {
      for (let at = 0; at < piece.length; ) {
        const end = this.#splitter.wordEnd(piece, at);
        if (end - at > keptUnits) yield* this.#encodeLong(piece.slice(at, end), out);
        else if (!this.#cache.take(piece, at, end, out)) this.#encodeWord(piece, at, end, out);
        numChars += end - at;
        at = end;
        if (numChars >= stepChars) {
          numChars = 0;
          yield;
        }
      }
    }
  }

  #encodeWord(text: string, start: number, end: number, out: number[]): void {
    const ids = this.#ids;
    const bytes = this.#bytes;
    const length = bytes.write(text.slice(start, end));
    const whole = this.#ignoreMerges ? this.#index.find(bytes, 0, length) : -1;
    let count = 1;
    if (whole === -1) count = this.#merger.mergeNow(ids, this.#symbols(bytes, length, ids));
    else ids[0] = whole;
    for (let i = 0; i < count; i++) out.push(ids[i] as number);
    this.#cache.put(text, start, end, ids, count);
  }

  *#encodeLong(word: string, out: number[]): Steps<void> {
    const bytes = Buffer.from(word);
    const ids = new Int32Array(bytes.length);
    const whole = this.#ignoreMerges ? this.#index.find(bytes, 0, bytes.length) : -1;
    let count = 1;
    if (whole === -1) count = yield* this.#merger.merge(ids, this.#symbols(bytes, bytes.length, ids));
    else ids[0] = whole;
    for (let i = 0; i < count; i++) out.push(ids[i] as number);
  }

  /**
   * Writes the tokens of the bytes to `ids` and returns their number. A byte without a token gives none, as with the tokenizer
   * that the model was trained with.
   */
  #symbols(bytes: Uint8Array, length: number, ids: Int32Array): number {
    let count = 0;
    for (let i = 0; i < length; i++) {
      const id = this.#byteIds[bytes[i] as number] as number;
      if (id !== -1) ids[count++] = id;
    }
    return count;
  }
}
