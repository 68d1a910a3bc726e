import type { TextIndex } from './packed-texts.ts';
import type { TokenizerTables } from './tables.ts';
import type { Steps } from './tokenizer.ts';
import { WordCache } from './word-cache.ts';
import type { WordMerger } from './word-merger.ts';

/** The number of UTF-16 units that are encoded in one step. */
const stepChars = 2048;
/** Words of at most this many UTF-16 units share buffers. */
const keptUnits = 1024;
/** The most UTF-8 bytes that one UTF-16 unit takes. */
const unitBytes = 3;
const none = -1;

/** Encodes text word by word: the symbols of each word merge, and the ids of recent words are cached. */
export abstract class Words {
  protected readonly byteIds: Int32Array;
  protected readonly index: TextIndex;
  readonly #ignoreMerges: boolean;
  readonly #merger: WordMerger;
  readonly #cache = new WordCache();
  readonly #ids = new Int32Array(keptUnits * unitBytes);
  readonly #bytes = Buffer.alloc(keptUnits * unitBytes);

  constructor({ byteIds, form }: TokenizerTables, index: TextIndex, merger: WordMerger) {
    this.byteIds = byteIds;
    this.index = index;
    this.#ignoreMerges = form.ignoreMerges;
    this.#merger = merger;
  }

  /** Cuts a text into pieces, within which wordEnd() finds the words. */
  protected abstract pieces(text: string): Iterable<string>;

  /** The end of the word that begins at `at` in a piece. */
  protected abstract wordEnd(piece: string, at: number): number;

  /** Writes the symbols of a word to `ids` and returns their number. bytes: the word in UTF-8, of this length. */
  protected abstract symbols(word: string, bytes: Uint8Array, length: number, ids: Int32Array): number;

  /** Appends the first `count` ids to `out`. */
  protected abstract push(ids: Int32Array, count: number, out: number[]): void;

  /** Appends the ids of a text between added tokens to `out`. */
  *encode(text: string, out: number[]): Steps<void> {
    let numChars = 0;
    for (const piece of this.pieces(text)) {
      for (let at = 0; at < piece.length; ) {
        const end = this.wordEnd(piece, at);
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
    const word = text.slice(start, end);
    const length = bytes.write(word);
    const whole = this.#ignoreMerges ? this.index.find(bytes, 0, length) : none;
    let count = 1;
    if (whole === none) count = this.#merger.mergeNow(ids, this.symbols(word, bytes, length, ids));
    else ids[0] = whole;
    const before = out.length;
    this.push(ids, count, out);
    this.#cache.put(text, start, end, out, before);
  }

  *#encodeLong(word: string, out: number[]): Steps<void> {
    const bytes = Buffer.from(word);
    const ids = new Int32Array(bytes.length);
    const whole = this.#ignoreMerges ? this.index.find(bytes, 0, bytes.length) : none;
    let count = 1;
    if (whole === none) count = yield* this.#merger.merge(ids, this.symbols(word, bytes, bytes.length, ids));
    else ids[0] = whole;
    this.push(ids, count, out);
  }
}
