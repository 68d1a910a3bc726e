import { hashOf, hashStart, lengthAt, type PackedTexts, stringAt, type TextIndex } from './packed-texts.ts';
import { spaceMark, TokenizerError, type TokenizerTables, type UnigramForm } from './tables.ts';
import { finish, type Steps } from './tokenizer.ts';
import { foundTokens, roles, type Vocabulary, vocabularyOf } from './vocabulary.ts';
import { keptUnits, unitBytes, Words } from './words.ts';

/** Bounds the tokens that are tried at one place of a text. */
const pieceBytesMax = 256;
/** A character without a token has the least score less this, as in SentencePiece. */
const unknownPenalty = 10;
/** The number of characters that are looked at in one step. */
const stepCharacters = 1024;
const space = ' ';
const none = -1;

/** Where the best path to each byte of a word comes from: its last token begins at starts, and has the id. */
interface Paths {
  readonly scores: Float64Array;
  readonly starts: Int32Array;
  readonly ids: Int32Array;
}

function pathsOf(numBytes: number): Paths {
  const places = numBytes + 1;
  return {
    scores: new Float64Array(places),
    starts: new Int32Array(places),
    ids: new Int32Array(places),
  };
}

/**
 * Encodes words of Unigram (Kudo 2018): of all ways to write a word in tokens the one whose scores have the largest sum, found
 * by Viterbi's algorithm. Neighbouring characters without a token are one unknown token, or the tokens of their bytes.
 */
export class UnigramWords extends Words {
  readonly #form: UnigramForm;
  readonly #index: TextIndex;
  readonly #byteIds: Int32Array;
  readonly #unknownId: number;
  /** The bytes of the longest token that begins with these two bytes. */
  readonly #longest: Uint16Array;
  readonly #kept = pathsOf(keptUnits * unitBytes);
  readonly #bytes = Buffer.alloc(keptUnits * unitBytes);

  constructor(tables: TokenizerTables, form: UnigramForm, index: TextIndex) {
    super();
    this.#form = form;
    this.#index = index;
    this.#byteIds = tables.byteIds;
    this.#unknownId = tables.unknownId ?? none;
    this.#longest = longestOf(tables);
  }

  protected override pieces(text: string): Iterable<string> {
    return [text.replaceAll(spaceMark, space)];
  }

  protected override wordEnd(piece: string, at: number): number {
    const end = this.#form.splits ? piece.indexOf(space, at + 1) : none;
    return end === none ? piece.length : end;
  }

  protected override encodeWord(word: string, out: number[]): void {
    finish(this.#encode(this.#bytes, this.#bytes.write(word), this.#kept, out));
  }

  protected override *encodeLong(word: string, out: number[]): Steps<void> {
    const bytes = Buffer.from(word);
    yield* this.#encode(bytes, bytes.length, pathsOf(bytes.length), out);
  }

  *#encode(bytes: Buffer, length: number, paths: Paths, out: number[]): Steps<void> {
    const { scores, starts, ids } = paths;
    const { scores: scoreOf, unknownScore } = this.#form;
    const index = this.#index;
    starts.fill(none, 0, length + 1);
    const offer = (start: number, end: number, id: number, score: number): void => {
      const sum = (scores[start] as number) + score;
      if (starts[end] !== none && sum <= (scores[end] as number)) return;
      scores[end] = sum;
      starts[end] = start;
      ids[end] = id;
    };
    scores[0] = 0;
    let numCharacters = 0;
    for (let start = 0, next = 0; start < length; start = next) {
      next = start + bytesOfCharacter(bytes[start] as number);
      const pair = ((bytes[start] as number) << 8) | (start + 1 < length ? (bytes[start + 1] as number) : 0);
      const most = Math.min(length, start + (this.#longest[pair] as number));
      let hash = hashStart;
      let isCovered = false;
      for (let at = start, end = next; end <= most; ) {
        hash = hashOf(bytes, at, end, hash);
        const id = index.findHashed(bytes, start, end, hash);
        if (id !== none) {
          offer(start, end, id, scoreOf[id] as number);
          if (end === next) isCovered = true;
        }
        at = end;
        end += at < length ? bytesOfCharacter(bytes[at] as number) : 1;
      }
      if (!isCovered) offer(start, next, this.#unknownId, unknownScore);
      if (++numCharacters % stepCharacters === 0) yield;
    }
    this.#push(bytes, length, paths, out);
  }

  /** Appends the ids of the best path, which is found from its end. */
  #push(bytes: Buffer, length: number, { starts, ids }: Paths, out: number[]): void {
    const found: number[] = [];
    for (let end = length; end > 0; ) {
      const id = ids[end] as number;
      let start = starts[end] as number;
      if (id === this.#unknownId) {
        while (start > 0 && ids[start] === id) start = starts[start] as number;
        for (const each of this.#unknown(bytes, start, end).reverse()) found.push(each);
      } else found.push(id);
      end = start;
    }
    for (let i = found.length - 1; i >= 0; i--) out.push(found[i] as number);
  }

  #unknown(bytes: Buffer, start: number, end: number): number[] {
    const whole = this.#index.find(bytes, start, end);
    if (whole !== none) return [whole];
    const ids = Array.from(bytes.subarray(start, end), (byte) => this.#byteIds[byte] as number);
    return ids.includes(none) ? [this.#unknownId] : ids;
  }
}

function bytesOfCharacter(lead: number): number {
  if (lead < 0xc0) return 1;
  if (lead < 0xe0) return 2;
  return lead < 0xf0 ? 3 : 4;
}

function longestOf(vocabulary: Pick<Vocabulary, 'texts' | 'index' | 'isControl'>): Uint16Array {
  const longest = new Uint16Array(0x1_0000);
  const { bytes, starts } = vocabulary.texts;
  for (const [id, isFound] of foundTokens(vocabulary).entries()) {
    if (isFound === 0) continue;
    const start = starts[id] as number;
    const length = (starts[id + 1] as number) - start;
    const first = (bytes[start] as number) << 8;
    if (length === 1) for (let next = 0; next < 0x100; next++) longest[first | next] ||= 1;
    else {
      const pair = first | (bytes[start + 1] as number);
      longest[pair] = Math.max(longest[pair] as number, length);
    }
  }
  return longest;
}

/**
 * The vocabulary of Unigram. role: that of the unknown token becomes `literal`, since a text may end in it, as with
 * wordPieceVocabulary(). Throws TokenizerError.
 */
export function unigramVocabulary(
  source: PackedTexts,
  role: Uint8Array,
  unknownId: number | undefined,
): Vocabulary {
  if (unknownId === undefined || unknownId >= role.length)
    throw new TokenizerError('its vocabulary has no token for unknown characters');
  role[unknownId] = roles.literal;
  const vocabulary = vocabularyOf(source, role, 'sentencepiece');
  const { texts } = vocabulary;
  for (const [id, isFound] of foundTokens(vocabulary).entries()) {
    if (isFound === 0 || lengthAt(texts, id) <= pieceBytesMax) continue;
    const shown = JSON.stringify(stringAt(texts, id).slice(0, 40));
    throw new TokenizerError(
      `its token ${id}, which begins with ${shown}, has ${lengthAt(texts, id)} bytes; with the model Unigram at most ${pieceBytesMax} are supported`,
    );
  }
  return vocabulary;
}

/** The score of a character without a token. scores: those of ordinary tokens. */
export function unknownScoreOf(scores: Iterable<number>): number {
  let least = Number.POSITIVE_INFINITY;
  for (const score of scores) least = Math.min(least, score);
  return least - unknownPenalty;
}
