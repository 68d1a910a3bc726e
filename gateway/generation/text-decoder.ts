/**
 * Tokens back to text, as they come. A token may end in the middle of a character: those bytes are kept until the
 * character is complete. An invalid byte becomes U+FFFD at once and holds nothing up. Nothing else is changed: a byte
 * order mark is text like any other. Control tokens give no text. Where a text begins, the space that encoding puts in front
 * of it is taken away.
 */
import type { Tokenizer } from '../tokenizer/tokenizer.ts';
import { incompleteTailBytes } from '../tokenizer/utf8.ts';

type Decodable = Pick<Tokenizer, 'bytes' | 'isControl' | 'addsSpace'>;

const space = 0x20;

/** Longer tokens are rare, and decoded each time. */
const MAX_KEPT_BYTES = 64;

/** Texts of tokens that are whole characters, by id, once they were decoded: at most one for each token of a vocabulary. */
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
  /** A text begins, and none of it has come. */
  #isAtStart: boolean;
  /** At most 3 bytes: the beginning of a character. */
  #pending: Uint8Array = new Uint8Array(0);

  /** isAtStart: the first token is the first of a text, not one of an answer that goes on from a prompt. */
  constructor(tokenizer: Decodable, isAtStart = false) {
    this.#tokenizer = tokenizer;
    this.#texts = keptTexts(tokenizer);
    this.#isAtStart = isAtStart;
  }

  /** Whether bytes are kept that are not yet a character. */
  get hasPending(): boolean {
    return this.#pending.length > 0;
  }

  /** Text that is complete with this token; often empty. RangeError for an id outside the vocabulary. */
  decode(id: number): string {
    const text = this.#pending.length === 0 && !this.#isAtStart ? this.#texts.get(id) : undefined;
    return text ?? this.#decode(id);
  }

  #decode(id: number): string {
    const tokenBytes = this.#tokenizer.bytes(id);
    if (this.#tokenizer.isControl(id)) return '';
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

  /** The end of the stream: an incomplete character is dropped, and the decoder starts afresh. */
  flush(): string {
    this.#pending = new Uint8Array(0);
    return '';
  }
}

/** The text of all tokens at once. */
export function decodeAll(tokenizer: Decodable, ids: Iterable<number>): string {
  const decoder = new StreamingDecoder(tokenizer, true);
  let text = '';
  for (const id of ids) text += decoder.decode(id);
  return text + decoder.flush();
}
