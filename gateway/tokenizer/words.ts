import type { TextIndex } from './packed-texts.ts';
import { WordSplitter } from './pre-tokenizers/word-splitter.ts';
import type { ByteLevelForm, TokenizerTables } from './tables.ts';
import type { Steps } from './tokenizer.ts';
import type { WordMerger } from './word-merger.ts';

/** The number of UTF-16 units that are encoded in one step. */
const stepChars = 2048;
/** Words of at most this many UTF-16 units share buffers. */
export const keptUnits = 1024;
/** The most UTF-8 bytes that one UTF-16 unit takes. */
export const unitBytes = 3;
const none = -1;

/** Encodes text word by word. The ids of recent words are cached. */
export abstract class Words {
  readonly #cache = new WordCache();

  /** Cuts a text into pieces, within which wordEnd() finds the words. */
  protected abstract pieces(text: string): Iterable<string>;

  /** The end of the word that begins at `at` in a piece. */
  protected abstract wordEnd(piece: string, at: number): number;

  /** Appends the ids of a word of at most keptUnits to `out`. */
  protected abstract encodeWord(word: string, out: number[]): void;

  /** Appends the ids of a longer word to `out`. */
  protected abstract encodeLong(word: string, out: number[]): Steps<void>;

  /** Appends the ids of a text between added tokens to `out`. */
  *encode(text: string, out: number[]): Steps<void> {
    let numChars = 0;
    for (const piece of this.pieces(text)) {
      for (let at = 0; at < piece.length; ) {
        const end = this.wordEnd(piece, at);
        if (end - at > keptUnits) yield* this.encodeLong(piece.slice(at, end), out);
        else if (!this.#cache.take(piece, at, end, out)) {
          const before = out.length;
          this.encodeWord(piece.slice(at, end), out);
          this.#cache.put(piece, at, end, out, before);
        }
        numChars += end - at;
        at = end;
        if (numChars >= stepChars) {
          numChars = 0;
          yield;
        }
      }
    }
  }
}

/** Words whose symbols merge. */
export abstract class MergedWords extends Words {
  protected readonly byteIds: Int32Array;
  protected readonly index: TextIndex;
  readonly #ignoreMerges: boolean;
  readonly #merger: WordMerger;
  readonly #ids = new Int32Array(keptUnits * unitBytes);
  readonly #bytes = Buffer.alloc(keptUnits * unitBytes);

  constructor(byteIds: Int32Array, ignoreMerges: boolean, index: TextIndex, merger: WordMerger) {
    super();
    this.byteIds = byteIds;
    this.index = index;
    this.#ignoreMerges = ignoreMerges;
    this.#merger = merger;
  }

  /** Writes the symbols of a word to `ids` and returns their number. bytes: the word in UTF-8, of this length. */
  protected abstract symbols(word: string, bytes: Uint8Array, length: number, ids: Int32Array): number;

  /** Appends the first `count` ids to `out`. */
  protected abstract push(ids: Int32Array, count: number, out: number[]): void;

  protected override encodeWord(word: string, out: number[]): void {
    const ids = this.#ids;
    const bytes = this.#bytes;
    const length = bytes.write(word);
    const whole = this.#ignoreMerges ? this.index.find(bytes, 0, length) : none;
    let count = 1;
    if (whole === none) count = this.#merger.mergeNow(ids, this.symbols(word, bytes, length, ids));
    else ids[0] = whole;
    this.push(ids, count, out);
  }

  protected override *encodeLong(word: string, out: number[]): Steps<void> {
    const bytes = Buffer.from(word);
    const ids = new Int32Array(bytes.length);
    const whole = this.#ignoreMerges ? this.index.find(bytes, 0, bytes.length) : none;
    let count = 1;
    if (whole === none) count = yield* this.#merger.merge(ids, this.symbols(word, bytes, bytes.length, ids));
    else ids[0] = whole;
    this.push(ids, count, out);
  }
}

const slotsMax = 2 ** 16;
const wordsMax = slotsMax / 2;
const unitsMax = 2 ** 19;
const idsMax = 2 ** 18;
/** Longer words are not cached. */
const cachedWordUnitsMax = 64;

/**
 * The ids of recent words. Ordinary text repeats its words, so most words need only one look-up. The words lie in typed arrays,
 * so a look-up needs no allocation. A full cache is emptied.
 */
class WordCache {
  /** The index of a word by its hash, or none. */
  readonly #slots = new Int32Array(slotsMax).fill(none);
  readonly #hashes = new Int32Array(wordsMax);
  /** Word i has the units and the ids from [i] to [i + 1]. */
  readonly #unitStarts = new Int32Array(wordsMax + 1);
  readonly #idStarts = new Int32Array(wordsMax + 1);
  readonly #units = new Uint16Array(unitsMax);
  readonly #ids = new Int32Array(idsMax);
  #numWords = 0;

  /** Appends the ids of the word from start to end of `text` to `out`. Returns false if the word is not cached. */
  take(text: string, start: number, end: number, out: number[]): boolean {
    if (end - start > cachedWordUnitsMax) return false;
    const word = this.#slots[this.#slot(text, start, end, hashOf(text, start, end))] as number;
    if (word === none) return false;
    const last = this.#idStarts[word + 1] as number;
    for (let i = this.#idStarts[word] as number; i < last; i++) out.push(this.#ids[i] as number);
    return true;
  }

  /** Adds a word that is not cached yet. Its ids are those of `out` from `before` on. */
  put(text: string, start: number, end: number, out: readonly number[], before: number): void {
    const length = end - start;
    const count = out.length - before;
    if (length > cachedWordUnitsMax || count > cachedWordUnitsMax * 4) return;
    const word = this.#numWords;
    const unitsEnd = (this.#unitStarts[word] as number) + length;
    const idsEnd = (this.#idStarts[word] as number) + count;
    if (word === wordsMax || unitsEnd > unitsMax || idsEnd > idsMax) {
      this.#slots.fill(none);
      this.#numWords = 0;
      this.put(text, start, end, out, before);
      return;
    }
    const hash = hashOf(text, start, end);
    this.#slots[this.#slot(text, start, end, hash)] = word;
    this.#hashes[word] = hash;
    for (let i = 0; i < length; i++) this.#units[unitsEnd - length + i] = text.charCodeAt(start + i);
    for (let i = 0; i < count; i++) this.#ids[idsEnd - count + i] = out[before + i] as number;
    this.#unitStarts[word + 1] = unitsEnd;
    this.#idStarts[word + 1] = idsEnd;
    this.#numWords = word + 1;
  }

  #slot(text: string, start: number, end: number, hash: number): number {
    for (let slot = hash & (slotsMax - 1); ; slot = (slot + 1) & (slotsMax - 1)) {
      const word = this.#slots[slot] as number;
      if (word === none || (this.#hashes[word] === hash && this.#isWord(word, text, start, end))) return slot;
    }
  }

  #isWord(word: number, text: string, start: number, end: number): boolean {
    const from = this.#unitStarts[word] as number;
    if ((this.#unitStarts[word + 1] as number) - from !== end - start) return false;
    for (let i = start; i < end; i++) {
      if (this.#units[from + i - start] !== text.charCodeAt(i)) return false;
    }
    return true;
  }
}

function hashOf(text: string, start: number, end: number): number {
  let hash = end - start;
  for (let i = start; i < end; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x9e3779b1);
  return hash ^ (hash >>> 15);
}

/**
 * Encodes words of byte-level BPE, which GPT-2 introduced: text is cut into words, each word becomes the tokens of its UTF-8
 * bytes, and these merge.
 */
export class ByteLevelWords extends MergedWords {
  readonly #splitter: WordSplitter;

  constructor({ byteIds }: TokenizerTables, form: ByteLevelForm, index: TextIndex, merger: WordMerger) {
    super(byteIds, form.ignoreMerges, index, merger);
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
