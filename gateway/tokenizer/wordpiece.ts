import type { PackedTexts, TextIndex } from './packed-texts.ts';
import { isSpace, normalized, partsOf, wordEnd } from './pre-tokenizers/bert.ts';
import { TokenizerError, type TokenizerTables, type WordPieceForm } from './tables.ts';
import type { Steps } from './tokenizer.ts';
import { roles, type Vocabulary, vocabularyOf } from './vocabulary.ts';
import { Words } from './words.ts';

/** Longer words are unknown, as with max_input_chars_per_word in Hugging Face's files. */
export const wordCharsMax = 100;
const space = 0x20;
const none = -1;

/**
 * Encodes words of WordPiece: the longest piece that a word begins with, then the longest that its rest begins with, and so on.
 * A word that cannot be spelled whole is one unknown token.
 */
export class WordPieceWords extends Words {
  readonly #form: WordPieceForm;
  readonly #index: TextIndex;
  readonly #maxTokenBytes: number;
  readonly #unknownId: number | undefined;
  /** A space and the word behind it. So the first piece that is searched is one that begins a word. */
  readonly #bytes = Buffer.alloc(1 + wordCharsMax * 4, space);

  constructor({ maxTokenBytes, unknownId }: TokenizerTables, form: WordPieceForm, index: TextIndex) {
    super();
    this.#form = form;
    this.#index = index;
    this.#maxTokenBytes = maxTokenBytes;
    this.#unknownId = unknownId;
  }

  protected override *pieces(text: string): Iterable<string> {
    for (const part of partsOf(text, this.#form)) yield normalized(part, this.#form);
  }

  protected override wordEnd(piece: string, at: number): number {
    return wordEnd(piece, at);
  }

  protected override encodeWord(word: string, out: number[]): void {
    if (isSpace(word)) return;
    const before = out.length;
    if (isLong(word) || !this.#spell(word, out)) this.#pushUnknown(out, before);
  }

  protected override *encodeLong(word: string, out: number[]): Steps<void> {
    this.encodeWord(word, out);
    yield;
  }

  /** Appends the pieces of the word. Returns false at the first place where no piece fits. */
  #spell(word: string, out: number[]): boolean {
    const bytes = this.#bytes;
    const end = 1 + bytes.write(word, 1);
    for (let at = 0; at < end; ) {
      let to = Math.min(end, at + this.#maxTokenBytes);
      const shortest = at === 0 ? 2 : at + 1;
      let id = none;
      for (; id === none && to >= shortest; to--) {
        const isWhole = to === end || ((bytes[to] as number) & 0xc0) !== 0x80;
        if (isWhole) id = this.#index.find(bytes, at, to);
      }
      if (id === none) return false;
      out.push(id);
      at = to + 1;
    }
    return true;
  }

  #pushUnknown(out: number[], before: number): void {
    out.length = before;
    if (this.#unknownId !== undefined) out.push(this.#unknownId);
  }
}

function isLong(word: string): boolean {
  if (word.length <= wordCharsMax) return false;
  return word.length > 2 * wordCharsMax || [...word].length > wordCharsMax;
}

/**
 * The vocabulary of WordPiece. In `texts`, a piece that begins a word has a space in front, and one that continues a word has
 * none, as in decoded text. role: that of the unknown token becomes `literal`, since a text may end in it, and whoever cuts a
 * text takes control tokens at its end for those that belong behind it.
 */
export function wordPieceVocabulary(
  source: PackedTexts,
  role: Uint8Array,
  notation: 'hashes' | 'phantom-spaces',
  unknownId: number | undefined,
): Vocabulary {
  if (unknownId === undefined) throw new TokenizerError('its vocabulary has no token for unknown words');
  role[unknownId] = roles.literal;
  return vocabularyOf(source, role, notation);
}
