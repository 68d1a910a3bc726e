import { stringAt, TextIndex } from './packed-texts.ts';
import { type Crossing, type SentencePieceForm, spaceMark, type TokenizerTables } from './tables.ts';
import type { Vocabulary } from './vocabulary.ts';
import type { WordMerger } from './word-merger.ts';
import { MergedWords } from './words.ts';

const space = 0x20;
const unknown = -1;
const notAsked = -2;

/**
 * Encodes words of SentencePiece: characters, among them spaces, merge into tokens. A word is a run of spaces with the text
 * after it. Almost no token has a space after another character, so merges do not cross words. The few tokens that do (in
 * Gemma's vocabulary `> </`) are searched in the text, and no word ends inside of them. A character that no token covers
 * becomes the tokens of its bytes.
 */
export class SentencePieceWords extends MergedWords {
  readonly #unknownId: number | undefined;
  readonly #crossings: readonly Crossing[] | undefined;
  /** The ids of characters of the basic plane, filled in as they are looked up. */
  readonly #charIds = new Int32Array(0x1_0000).fill(notAsked);
  /** The bytes of a character. */
  readonly #bytes = Buffer.alloc(4);

  constructor(tables: TokenizerTables, form: SentencePieceForm, index: TextIndex, merger: WordMerger) {
    super(tables.byteIds, form.ignoreMerges, index, merger);
    this.#unknownId = tables.unknownId;
    this.#crossings = form.crossings;
  }

  protected override pieces(text: string): Iterable<string> {
    return [text.replaceAll(spaceMark, ' ')];
  }

  protected override wordEnd(text: string, start: number): number {
    const length = text.length;
    if (this.#crossings === undefined) return length;
    for (let at = start; ; ) {
      while (at < length && text.charCodeAt(at) === space) at++;
      while (at < length && text.charCodeAt(at) !== space) at++;
      if (at === length || !isCrossed(text, at, this.#crossings)) return at;
    }
  }

  /** A symbol for each character: a token, or ~ of the code point if there is none. */
  protected override symbols(word: string, _: Uint8Array, __: number, ids: Int32Array): number {
    let count = 0;
    for (let at = 0; at < word.length; ) {
      const unit = word.charCodeAt(at);
      let id = this.#charIds[unit] as number;
      let code = unit;
      at++;
      if (unit >= 0xd800 && unit <= 0xdfff) {
        code = word.codePointAt(at - 1) as number;
        if (code > 0xffff) at++;
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
    return this.index.find(this.#bytes, 0, this.#bytes.write(String.fromCodePoint(code)));
  }

  protected override push(ids: Int32Array, count: number, out: number[]): void {
    for (let i = 0; i < count; i++) {
      const id = ids[i] as number;
      if (id >= 0) out.push(id);
      else this.#pushBytes(~id, out);
    }
  }

  #pushBytes(code: number, out: number[]): void {
    const length = this.#bytes.write(String.fromCodePoint(code));
    const ids = Array.from(this.#bytes.subarray(0, length), (byte) => this.byteIds[byte] as number);
    if (!ids.includes(-1)) out.push(...ids);
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
