/**
 * Converts between bytes and frames: each message follows its length as a varint (docs/protocol.md, "A frame"). The decoder
 * checks a length before it reserves memory, and copies only messages that arrive in pieces.
 */

export const maxBytesToRunner = 16 * 1024 * 1024;
export const maxBytesFromRunner = 1024 * 1024;

const maxLengthBytes = 5;

/** Cuts a byte stream into messages. After it has thrown a ProtocolError it must not be used again. */
export class FrameDecoder {
  readonly #maxBytes: number;
  readonly #onMessage: (message: Uint8Array) => void;
  /** The value and the number of bytes of an incomplete length. */
  #length = 0;
  #lengthBytes = 0;
  /** A message that began in an earlier chunk, and how many of its bytes have come. */
  #partial: Uint8Array | undefined;
  #partialBytes = 0;

  /** onMessage gets a view that is valid until it returns. It may throw; push() passes the error on. */
  constructor(maxBytes: number, onMessage: (message: Uint8Array) => void) {
    this.#maxBytes = maxBytes;
    this.#onMessage = onMessage;
  }

  push(chunk: Uint8Array): void {
    let position = 0;
    while (position < chunk.length) position = this.pushOne(chunk, position);
  }

  /** Reads at most one message from this position of the chunk on. Returns the position behind what was read. */
  pushOne(chunk: Uint8Array, position: number): number {
    return this.#partial === undefined
      ? this.#readLength(chunk, position)
      : this.#fillPartial(this.#partial, chunk, position);
  }

  /** Call it at the end of the stream. Throws ProtocolError if the stream ends inside a frame. */
  end(): void {
    if (this.#partial !== undefined)
      throw new ProtocolError(
        'truncated',
        `The stream ended inside a frame, after ${this.#partialBytes} of ${this.#partial.length} bytes.`,
      );
    if (this.#lengthBytes > 0)
      throw new ProtocolError('truncated', 'The stream ended inside the length of a frame.');
  }

  /** Reads a part of a length, or a length and its message if all of it is in the chunk. Returns the position behind. */
  #readLength(chunk: Uint8Array, start: number): number {
    let position = start;
    for (;;) {
      const byte = chunk[position];
      if (byte === undefined) return position;
      position += 1;
      // A shift would be wrong: the fifth byte reaches beyond the 32 bits that shifts work on.
      this.#length += (byte & 0x7f) * 2 ** (7 * this.#lengthBytes);
      this.#lengthBytes += 1;
      if (byte < 0x80) break;
      if (this.#lengthBytes === maxLengthBytes)
        throw new ProtocolError('varint', `The length of a frame takes more than ${maxLengthBytes} bytes.`);
    }
    const length = this.#length;
    if (length > this.#maxBytes)
      throw new ProtocolError(
        'oversize',
        `A frame says it has ${length} bytes; at most ${this.#maxBytes} are allowed.`,
      );
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

/** Returns length and message in one buffer, so that a frame is one write. Throws RangeError if the message is too long. */
export function encodeFrame(message: Uint8Array, maxBytes: number): Uint8Array {
  if (message.length > maxBytes)
    throw new RangeError(`A message of ${message.length} bytes does not fit into a frame of ${maxBytes}.`);
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

/**
 * What is wrong with the bytes. varint, oversize, truncated: with a frame. garbage, empty: with a message. field: a value is
 * outside its limit. order: a message came at the wrong time or about the wrong request. rate: too many messages that nobody
 * asked for. version: another protocol version. internal: nothing; the gateway threw while it handled them.
 */
export type ProtocolErrorKind =
  | 'varint'
  | 'oversize'
  | 'truncated'
  | 'garbage'
  | 'empty'
  | 'field'
  | 'order'
  | 'rate'
  | 'version'
  | 'internal';

/** The runner broke the protocol (docs/protocol.md). What it sends afterwards is ignored. */
export class ProtocolError extends Error {
  override readonly name = 'ProtocolError';
  readonly kind: ProtocolErrorKind;

  constructor(kind: ProtocolErrorKind, message: string, options?: { cause: unknown }) {
    super(message, options);
    this.kind = kind;
  }
}
