/**
 * Turns tokens into text as they come. A token may end in the middle of a character: its bytes are kept until the character is
 * complete. An invalid byte becomes U+FFFD at once. Everything else is kept as it is, even a byte order mark. Control tokens
 * give no text, or their marks. At the beginning of a text, the space that encoding put in front of it is removed.
 */
import type { Tokenizer } from '../tokenizer/tokenizer.ts';
import { incompleteTailBytes } from '../tokenizer/utf8.ts';
import type { Marks } from './control-marks.ts';

type Decodable = Pick<Tokenizer, 'bytes' | 'isControl' | 'addsSpace'>;

const space = 0x20;

/** Longer tokens are rare and are decoded each time. */
const MAX_KEPT_BYTES = 64;

/** Decoded texts by token id, for tokens that are whole characters: at most one text for each token of a vocabulary. */
const textsOf = new WeakMap<Decodable, Map<number, string>>();

function keptTexts(tokenizer: Decodable): Map<number, string> {
  let texts = textsOf.get(tokenizer);
  if (texts === undefined) {
    texts = new Map();
    textsOf.set(tokenizer, texts);
  }
  return texts;
}

export class StreamingDecoder {
  readonly #tokenizer: Decodable;
  readonly #texts: Map<number, string>;
  readonly #marks: Marks | undefined;
  /** Whether no text has come yet, so that a leading space is removed. */
  #isAtStart: boolean;
  /** The first bytes of an unfinished character, at most 3. */
  #pending: Uint8Array = new Uint8Array(0);

  /**
   * isAtStart: whether the first token begins a text. It does not if it continues a prompt. marks: what is decoded for these control
   * tokens. A mark is never joined with other text; an unfinished character before it is dropped.
   */
  constructor(tokenizer: Decodable, isAtStart = false, marks?: Marks) {
    this.#tokenizer = tokenizer;
    this.#marks = marks;
    this.#texts = keptTexts(tokenizer);
    this.#isAtStart = isAtStart;
  }

  /** Whether there are bytes that are not yet a character. */
  get hasPending(): boolean {
    return this.#pending.length > 0;
  }

  /**
   * Returns the text that is complete with this token, which is often empty. Throws RangeError for an id outside the
   * vocabulary.
   */
  decode(id: number): string {
    const text = this.#pending.length === 0 && !this.#isAtStart ? this.#texts.get(id) : undefined;
    return text ?? this.#decode(id);
  }

  #decode(id: number): string {
    const tokenBytes = this.#tokenizer.bytes(id);
    if (this.#tokenizer.isControl(id)) return this.#mark(id);
    const isPrefix = this.#isAtStart && this.#tokenizer.addsSpace && tokenBytes[0] === space;
    if (tokenBytes.length > 0) this.#isAtStart = false;
    const bytes = Buffer.concat([this.#pending, isPrefix ? tokenBytes.subarray(1) : tokenBytes]);
    const completeBytes = bytes.length - incompleteTailBytes(bytes);
    const isAlone = this.#pending.length === 0 && completeBytes === bytes.length && !isPrefix;
    this.#pending = bytes.subarray(completeBytes);
    const text = bytes.toString('utf8', 0, completeBytes);
    if (isAlone && bytes.length <= MAX_KEPT_BYTES) this.#texts.set(id, text);
    return text;
  }

  #mark(id: number): string {
    const mark = this.#marks?.get(id) ?? '';
    if (mark !== '') this.flush();
    return mark;
  }

  /** Ends the stream. An incomplete character is dropped, so the result is always empty. */
  flush(): string {
    this.#pending = new Uint8Array(0);
    return '';
  }
}

/** Decodes all tokens of a text at once. */
export function decodeAll(tokenizer: Decodable, ids: Iterable<number>): string {
  const decoder = new StreamingDecoder(tokenizer, true);
  let text = '';
  for (const id of ids) text += decoder.decode(id);
  return text + decoder.flush();
}
