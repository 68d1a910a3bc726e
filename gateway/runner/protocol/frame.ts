import type { Readable, Writable } from 'node:stream';

/**
 * Converts between bytes and frames, and moves frames through the two pipes of a runner: each message follows its length as a
 * varint (docs/protocol.md, "A frame"). The decoder checks a length before it reserves memory, and copies only messages that
 * arrive in pieces.
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

/** Time to take frames in one turn. At least one frame is taken. */
export const maxTurnMs = 2;

export interface FrameReaderEvents {
  /** Runs the action, which may throw what is wrong with a frame. */
  guard(action: () => void): void;
  /** All frames were taken and no more come. Called once, unless the reader is stopped before. */
  onEnd(): void;
}

/**
 * Takes a runner's frames off its pipe, for a bounded time in each turn of the event loop. A pipe can hold more than the loop
 * should do at once: handling a chunk's frames takes ten times as long as reading it. The rest waits here and the pipe is not
 * read meanwhile, so in the end the runner waits.
 */
export class FrameReader {
  readonly #input: Readable;
  readonly #decoder: FrameDecoder;
  readonly #events: FrameReaderEvents;
  readonly #now: () => number;
  /**
   * Chunks not taken yet. There may be several: Node reads a pipe to its end when the process exits, even if it is paused.
   * Together they are no more than a pipe holds.
   */
  readonly #waiting: Uint8Array[] = [];
  #position = 0;
  /** End of this turn's time; undefined: no frame has been taken in this turn. */
  #turnEndsAt: number | undefined;
  #isTaking = false;
  /** How the input ended: whole by an end, cut by an error or a close, which may come inside a frame. */
  #ended: 'whole' | 'cut' | undefined;
  #isStopped = false;

  /** now: a monotonic clock in milliseconds. */
  constructor(input: Readable, decoder: FrameDecoder, events: FrameReaderEvents, now: () => number) {
    this.#input = input;
    this.#decoder = decoder;
    this.#events = events;
    this.#now = now;
    input.on('data', (chunk: Uint8Array) => {
      if (this.#isStopped) return;
      this.#waiting.push(chunk);
      this.#take();
    });
    input.on('end', () => this.#onInputEnd('whole'));
    for (const event of ['error', 'close']) input.on(event, () => this.#onInputEnd('cut'));
  }

  stop(): void {
    this.#isStopped = true;
    this.#waiting.length = 0;
    this.#input.destroy();
  }

  #onInputEnd(how: 'whole' | 'cut'): void {
    if (this.#ended !== undefined) return;
    this.#ended = how;
    this.#take();
  }

  #take(): void {
    // Handling a frame may bring in the next chunk at once.
    if (this.#isTaking) return;
    this.#isTaking = true;
    const isAllTaken = this.#takeForATurn();
    this.#isTaking = false;
    if (this.#isStopped) return;
    if (!isAllTaken) this.#input.pause();
    else if (this.#ended === undefined) this.#input.resume();
    else this.#end(this.#ended);
  }

  /** Takes frames until this turn's time is over. Returns false if some are left for the next turn. */
  #takeForATurn(): boolean {
    this.#turnEndsAt ??= this.#beginTurn();
    while (!this.#isStopped && this.#waiting.length > 0) {
      if (this.#now() >= this.#turnEndsAt) return false;
      this.#takeOne();
    }
    return true;
  }

  #end(how: 'whole' | 'cut'): void {
    if (how === 'whole') this.#events.guard(() => this.#decoder.end());
    if (this.#isStopped) return;
    this.#isStopped = true;
    this.#events.onEnd();
  }

  #beginTurn(): number {
    setImmediate(() => {
      this.#turnEndsAt = undefined;
      if (this.#waiting.length > 0) this.#take();
    });
    return this.#now() + maxTurnMs;
  }

  #takeOne(): void {
    const [chunk] = this.#waiting;
    if (chunk === undefined) return;
    this.#events.guard(() => {
      this.#position = this.#decoder.pushOne(chunk, this.#position);
    });
    if (this.#position < chunk.length) return;
    this.#waiting.shift();
    this.#position = 0;
  }
}

/**
 * Writes frames to a pipe. While the pipe is full they wait here, in order, at most one for each key. So the number of open
 * requests bounds how many wait.
 */
export class FrameWriter {
  readonly #output: Writable;
  readonly #waiting = new Map<string, Uint8Array>();
  #isFull = false;
  #isEnding = false;

  /** The caller handles the output's 'error'. Frames for a broken pipe are dropped. */
  constructor(output: Writable) {
    this.#output = output;
    output.on('drain', () => this.#flush());
  }

  /** Sends a frame. It replaces a waiting frame with the same key, so only the later of the two is sent. */
  send(key: string, frame: Uint8Array): void {
    if (this.#isEnding || !this.#output.writable) return;
    // Without the delete, a key that is set again would keep its old place in the order.
    this.#waiting.delete(key);
    this.#waiting.set(key, frame);
    if (!this.#isFull) this.#flush();
  }

  /** Ends the pipe once all waiting frames are written. */
  end(): void {
    this.#isEnding = true;
    if (!this.#isFull) this.#flush();
  }

  #flush(): void {
    this.#isFull = false;
    for (const [key, frame] of this.#waiting) {
      if (this.#isFull) return;
      this.#waiting.delete(key);
      this.#isFull = !this.#output.write(frame);
    }
    if (this.#isEnding && this.#waiting.size === 0) this.#output.end();
  }
}
