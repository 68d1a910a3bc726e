/**
 * Tokens back to text, as they come. A token may end in the middle of a character: those bytes are kept until the
 * character is complete. An invalid byte becomes U+FFFD at once and holds nothing up. Nothing else is changed: a byte
 * order mark is text like any other. Control tokens give no text.
 */
import type { Tokenizer } from './tokenizer.ts';
import { incompleteTailBytes } from './utf8.ts';

export class StreamingDecoder {
  readonly #tokenizer: Pick<Tokenizer, 'bytes' | 'isControl'>;
  /** At most 3 bytes: the beginning of a character. */
  #pending: Uint8Array = new Uint8Array(0);

  constructor(tokenizer: Pick<Tokenizer, 'bytes' | 'isControl'>) {
    this.#tokenizer = tokenizer;
  }

  /** Whether bytes are kept that are not yet a character. */
  get hasPending(): boolean {
    return this.#pending.length > 0;
  }

  /** Text that is complete with this token; often empty. RangeError for an id outside the vocabulary. */
  decode(id: number): string {
    const tokenBytes = this.#tokenizer.bytes(id);
    if (this.#tokenizer.isControl(id)) return '';
    const bytes = Buffer.concat([this.#pending, tokenBytes]);
    const completeBytes = bytes.length - incompleteTailBytes(bytes);
    this.#pending = bytes.subarray(completeBytes);
    return bytes.toString('utf8', 0, completeBytes);
  }

  /** The end of the stream: an incomplete character is dropped, and the decoder starts afresh. */
  flush(): string {
    this.#pending = new Uint8Array(0);
    return '';
  }
}

/** The text of all tokens at once. */
export function decodeAll(tokenizer: Pick<Tokenizer, 'bytes' | 'isControl'>, ids: Iterable<number>): string {
  const decoder = new StreamingDecoder(tokenizer);
  let text = '';
  for (const id of ids) text += decoder.decode(id);
  return text + decoder.flush();
}
