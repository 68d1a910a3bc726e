/**
 * Bytes to frames and back: each message travels behind its length as a varint (docs/protocol.md, "A frame"). The
 * decoder refuses a length before it reserves memory for it, and copies only the messages that arrive in pieces.
 */
import { ProtocolError } from './protocol-error.ts';

export const maxBytesToRunner = 16 * 1024 * 1024;
export const maxBytesFromRunner = 1024 * 1024;

const maxLengthBytes = 5;

/** Cuts a byte stream into messages. Throws ProtocolError; after that it must not be used any more. */
export class FrameDecoder {
  readonly #maxBytes: number;
  readonly #onMessage: (message: Uint8Array) => void;
  /** Value and number of bytes of a length that is not complete yet. */
  #length = 0;
  #lengthBytes = 0;
  /** The message that is being put together, when it began in an earlier chunk, and how much of it is there. */
  #partial: Uint8Array | undefined;
  #partialBytes = 0;

  /** onMessage gets a view that is good until it returns. It may throw; the error passes through push. */
  constructor(maxBytes: number, onMessage: (message: Uint8Array) => void) {
    this.#maxBytes = maxBytes;
    this.#onMessage = onMessage;
  }

  push(chunk: Uint8Array): void {
    let position = 0;
    while (position < chunk.length) position = this.pushOne(chunk, position);
  }

  /** Reads from this position of the chunk, as far as one message at most, and returns the position behind. */
  pushOne(chunk: Uint8Array, position: number): number {
    return this.#partial === undefined
      ? this.#readLength(chunk, position)
      : this.#fillPartial(this.#partial, chunk, position);
  }

  /** To be called at the end of the stream, which may only come between two frames. */
  end(): void {
    if (this.#partial !== undefined) {
      throw new ProtocolError(
        'truncated',
        `The stream ended inside a frame, after ${this.#partialBytes} of ${this.#partial.length} bytes.`,
      );
    }
    if (this.#lengthBytes > 0) {
      throw new ProtocolError('truncated', 'The stream ended inside the length of a frame.');
    }
  }

  /** Returns the position behind what was read: a part of a length, or a length and the message if all of it is here. */
  #readLength(chunk: Uint8Array, start: number): number {
    let position = start;
    for (;;) {
      const byte = chunk[position];
      if (byte === undefined) return position;
      position += 1;
      // Not a shift: the fifth byte reaches beyond the 32 bits that shifts work on.
      this.#length += (byte & 0x7f) * 2 ** (7 * this.#lengthBytes);
      this.#lengthBytes += 1;
      if (byte < 0x80) break;
      if (this.#lengthBytes === maxLengthBytes) {
        throw new ProtocolError('varint', `The length of a frame takes more than ${maxLengthBytes} bytes.`);
      }
    }
    const length = this.#length;
    if (length > this.#maxBytes) {
      throw new ProtocolError(
        'oversize',
        `A frame says it has ${length} bytes; at most ${this.#maxBytes} are allowed.`,
      );
    }
    this.#length = 0;
    this.#lengthBytes = 0;
    if (position + length <= chunk.length) {
      this.#onMessage(chunk.subarray(position, position + length));
      return position + length;
    }
    this.#partial = new Uint8Array(length);
    this.#partialBytes = 0;
    return position;
  }

  #fillPartial(partial: Uint8Array, chunk: Uint8Array, start: number): number {
    const end = Math.min(chunk.length, start + partial.length - this.#partialBytes);
    partial.set(chunk.subarray(start, end), this.#partialBytes);
    this.#partialBytes += end - start;
    if (this.#partialBytes === partial.length) {
      this.#partial = undefined;
      this.#onMessage(partial);
    }
    return end;
  }
}

/** One buffer with length and message, so that a frame is one write. RangeError if the message is over the limit. */
export function encodeFrame(message: Uint8Array, maxBytes: number): Uint8Array {
  if (message.length > maxBytes) {
    throw new RangeError(`A message of ${message.length} bytes does not fit into a frame of ${maxBytes}.`);
  }
  const header: number[] = [];
  let rest = message.length;
  while (rest >= 0x80) {
    header.push((rest & 0x7f) | 0x80);
    rest >>>= 7;
  }
  header.push(rest);
  const frame = new Uint8Array(header.length + message.length);
  frame.set(header);
  frame.set(message, header.length);
  return frame;
}
