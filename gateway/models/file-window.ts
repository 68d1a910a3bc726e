/**
 * Reads a file from front to back through a window that grows only as far as one value needs, so that a header of
 * megabytes in a file of gigabytes costs megabytes. Every read is checked against the end of the file first: a length
 * that the file claims never becomes an allocation before the bytes are known to be there.
 */
import { readSync } from 'node:fs';
import type { TextPacker } from '../tokenizer/packed-texts.ts';

/** What a first refill reads; a header without a vocabulary fits at once. */
const windowBytes = 1 << 20;

/** The file ends before what it announces. Carries no path: whoever opened the file adds it. */
export class EndOfFileError extends Error {
  override readonly name = 'EndOfFileError';
}

export class FileWindow {
  readonly #fd: number;
  readonly #fileBytes: number;
  #window = Buffer.alloc(0);
  /** Offset in the file of the window's first byte. */
  #windowOffset = 0;
  #position = 0;

  constructor(fd: number, fileBytes: number) {
    this.#fd = fd;
    this.#fileBytes = fileBytes;
  }

  /** Offset in the file of the next byte. */
  get position(): number {
    return this.#position;
  }

  get remainingBytes(): number {
    return this.#fileBytes - this.#position;
  }

  uint8(): number {
    const at = this.#advance(1);
    return this.#window.readUInt8(at);
  }

  uint32(): number {
    const at = this.#advance(4);
    return this.#window.readUInt32LE(at);
  }

  uint64(): bigint {
    const at = this.#advance(8);
    return this.#window.readBigUInt64LE(at);
  }

  /**
   * Adds the next string, its length in 64 bits and then its bytes, if it is short and the window has all of it. Otherwise
   * false, and nothing is read.
   */
  takeText(texts: TextPacker): boolean {
    const window = this.#window;
    const at = this.#position - this.#windowOffset;
    const start = at + 8;
    if (start > window.length) return false;
    for (let i = at + 2; i < start; i++) if (window[i] !== 0) return false;
    const length = (window[at] as number) | ((window[at + 1] as number) << 8);
    if (start + length > window.length) return false;
    const { bytes, at: to } = texts.begin(length);
    // Most are a few bytes long, for which a view costs more than the copy.
    for (let i = 0; i < length; i++) bytes[to + i] = window[start + i] as number;
    texts.end(length);
    this.#position += 8 + length;
    return true;
  }

  /** Copies the next bytes to `target`, from `at` on. */
  copyTo(target: Uint8Array, at: number, length: number): void {
    const from = this.#advance(length);
    target.set(this.#window.subarray(from, from + length), at);
  }

  /** A copy of the next bytes, in memory of its own: typed arrays over it are aligned. */
  bytes(length: number): Uint8Array<ArrayBuffer> {
    const at = this.#advance(length);
    return new Uint8Array(this.#window.subarray(at, at + length));
  }

  /** The next bytes as text; where they are not UTF-8, the bytes themselves. A byte order mark is kept. */
  utf8(length: number): string | Uint8Array {
    const at = this.#advance(length);
    const text = this.#window.toString('utf8', at, at + length);
    // Decoding puts U+FFFD where bytes are invalid; only encoding again tells it from one that is in the file.
    if (!text.includes('\uFFFD')) return text;
    const bytes = this.#window.subarray(at, at + length);
    return Buffer.from(text, 'utf8').equals(bytes) ? text : new Uint8Array(bytes);
  }

  /** Moves past the next bytes and returns where they start in the window, which may be a new one that holds them. */
  #advance(length: number): number {
    if (length > this.remainingBytes) {
      throw new EndOfFileError(
        `${length} bytes are announced at offset ${this.#position}, but the file ends ${this.remainingBytes} bytes later`,
      );
    }
    let at = this.#position - this.#windowOffset;
    if (at + length > this.#window.length) {
      this.#refill(length);
      at = 0;
    }
    this.#position += length;
    return at;
  }

  /** Makes the window start at the current position and hold at least `length` bytes. */
  #refill(length: number): void {
    const window = Buffer.allocUnsafe(Math.min(Math.max(length, windowBytes), this.remainingBytes));
    let filled = 0;
    while (filled < window.length) {
      const read = readSync(this.#fd, window, filled, window.length - filled, this.#position + filled);
      if (read === 0) {
        throw new EndOfFileError(
          `the file ended at offset ${this.#position + filled} while it was being read`,
        );
      }
      filled += read;
    }
    this.#window = window;
    this.#windowOffset = this.#position;
  }
}
