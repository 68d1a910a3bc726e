/**
 * Encodes words of SentencePiece: characters, among them spaces, merge into tokens. A word is a run of spaces with the text
 * behind it. Almost no token has a space behind another character, so merges do not cross words. The few tokens that do (in
 * Gemma's vocabulary `> </`) are searched in the text, and no word ends inside of them. A character that no token covers
 * becomes the tokens of its bytes.
 */

import { stringAt, TextIndex } from './packed-texts.ts';
import { type Crossing, type SentencePieceForm, spaceMark, type TokenizerTables } from './tables.ts';
import type { Steps } from './tokenizer.ts';
import type { Vocabulary } from './vocabulary.ts';
import { WordCache } from './word-cache.ts';
import type { WordMerger } from './word-merger.ts';

const space = 0x20;
/** The number of UTF-16 units that are encoded in one step. */
const stepChars = 2048;
const keptUnits = 1024;
const unknown = -1;
const notAsked = -2;

export class SentencePieceWords {
  readonly #byteIds: Int32Array;
  readonly #unknownId: number | undefined;
  readonly #ignoreMerges: boolean;
  readonly #index: TextIndex;
  readonly #merger: WordMerger;
  readonly #crossings: readonly Crossing[] | undefined;
  readonly #cache = new WordCache();
  /** The ids of characters of the basic plane, filled in as they are looked up. */
  readonly #charIds = new Int32Array(0x1_0000).fill(notAsked);
  readonly #bytes = Buffer.alloc(keptUnits * 3);
  readonly #ids = new Int32Array(keptUnits);
  /** The ids of a word, with those of single bytes. */
  readonly #final = new Int32Array(keptUnits * 3);

  constructor(tables: TokenizerTables, form: SentencePieceForm, index: TextIndex, merger: WordMerger) {
    this.#byteIds = tables.byteIds;
    this.#unknownId = tables.unknownId;
    this.#ignoreMerges = form.ignoreMerges;
    this.#index = index;
    this.#merger = merger;
    this.#crossings = form.crossings;
  }

  /** Appends the ids of a text between added tokens to `out`. */
  *encode(source: string, out: number[]): Steps<void> {
    const text = source.replaceAll(spaceMark, ' ');
    let numChars = 0;
    for (let at = 0; at < text.length; ) {
      const end = this.#wordEnd(text, at);
      if (end - at > keptUnits) yield* this.#encodeLong(text.slice(at, end), out);
      else if (!this.#cache.take(text, at, end, out)) this.#encodeWord(text, at, end, out);
      numChars += end - at;
      at = end;
      if (numChars >= stepChars) {
        numChars = 0;
        yield;
      }
    }
  }

  /** The end of the word that begins at `start`. */
  #wordEnd(text: string, start: number): number {
    const length = text.length;
    if (this.#crossings === undefined) return length;
    for (let at = start; ; ) {
      while (at < length && text.charCodeAt(at) === space) at++;
      while (at < length && text.charCodeAt(at) !== space) at++;
      if (at === length || !isCrossed(text, at, this.#crossings)) return at;
    }
  }

  #encodeWord(text: string, start: number, end: number, out: number[]): void {
    const ids = this.#ids;
    const whole = this.#ignoreMerges ? this.#whole(text.slice(start, end)) : unknown;
    let count = 1;
    if (whole === unknown) count = this.#merger.mergeNow(ids, this.#symbols(text, start, end, ids));
    else ids[0] = whole;
    const before = out.length;
    this.#push(ids, count, out);
    const added = out.length - before;
    if (added > this.#final.length) return;
    for (let i = 0; i < added; i++) this.#final[i] = out[before + i] as number;
    this.#cache.put(text, start, end, this.#final, added);
  }

  *#encodeLong(word: string, out: number[]): Steps<void> {
    const ids = new Int32Array(word.length);
    const whole = this.#ignoreMerges ? this.#whole(word) : unknown;
    let count = 1;
    if (whole === unknown) count = yield* this.#merger.merge(ids, this.#symbols(word, 0, word.length, ids));
    else ids[0] = whole;
    this.#push(ids, count, out);
  }

  #whole(word: string): number {
    const bytes = Buffer.from(word);
    return this.#index.find(bytes, 0, bytes.length);
  }

  /**
   * Writes a symbol for each character to `ids` and returns their number. A symbol is a token, or ~ of the code point if there
   * is none.
   */
  #symbols(text: string, start: number, end: number, ids: Int32Array): number {
    let count = 0;
    for (let at = start; at < end; ) {
      const unit = text.charCodeAt(at);
      let id = this.#charIds[unit] as number;
      let code = unit;
      at++;
      if (unit >= 0xd800 && unit <= 0xdfff) {
        code = text.codePointAt(at - 1) as number;
        if (code > 0xffff && at < end) at++;
        else code = 0xfffd;
        id = this.#idOf(code);
      } else if (id === notAsked) {
        id = this.#idOf(code);
        this.#charIds[unit] = id;
      }
      ids[count++] = id === unknown ? ~code : id;
    }
    return count;
  }

  #idOf(code: number): number {
    return this.#index.find(this.#bytes, 0, this.#bytes.write(String.fromCodePoint(code)));
  }

  #push(ids: Int32Array, count: number, out: number[]): void {
    for (let i = 0; i < count; i++) {
      const id = ids[i] as number;
      if (id >= 0) out.push(id);
      else this.#pushBytes(~id, out);
    }
  }

  #pushBytes(code: number, out: number[]): void {
    const length = this.#bytes.write(String.fromCodePoint(code));
    const byteIds = Array.from(this.#bytes.subarray(0, length), (byte) => this.#byteIds[byte] as number);
    if (!byteIds.includes(-1)) out.push(...byteIds);
    else if (this.#unknownId !== undefined) out.push(this.#unknownId);
  }
}

function isCrossed(text: string, at: number, crossings: readonly Crossing[]): boolean {
  for (const crossing of crossings) {
    if (crossing.at <= at && text.startsWith(crossing.text, at - crossing.at)) return true;
  }
  return false;
}

/** With more crossings than this, texts are not cut into words. */
const crossingsMax = 64;

/**
 * Finds the crossings of a SentencePiece vocabulary: tokens that reach from one word into the next, because they have a space
 * behind another character. Most vocabularies have none, Gemma's has one (`> </`).
 */
export function crossingsOf({ texts, index, isControl }: Vocabulary): readonly Crossing[] | undefined {
  const crossings: Crossing[] = [];
  const find = new TextIndex(texts, index);
  const { bytes, starts } = texts;
  for (let id = 0; id < isControl.length; id++) {
    const end = starts[id + 1] as number;
    let at = (starts[id] as number) + 1;
    while (at < end && (bytes[at] !== space || bytes[at - 1] === space)) at++;
    if (at >= end || find.find(bytes, starts[id] as number, end) !== id) continue;
    const text = stringAt(texts, id);
    for (let i = 1; i < text.length; i++) {
      if (text[i] === ' ' && text[i - 1] !== ' ') crossings.push({ text, at: i });
    }
    if (crossings.length > crossingsMax) return undefined;
  }
  return crossings;
}
