/**
 * Reads a file from front to back through a window that grows only as far as one value needs, so that a header of megabytes
 * in a file of gigabytes costs megabytes. Every read is checked against the end of the file first: a length that the file
 * claims is not allocated before the bytes are known to exist.
 */
import { readSync } from 'node:fs';
import type { TextPacker } from '../tokenizer/packed-texts.ts';

/** Size of a refill, unless a value needs more. A header without a vocabulary fits. */
const windowBytes = 1 << 20;

/** The file ends before the data that it announces. The message has no path; whoever opened the file adds it. */
export class EndOfFileError extends Error {
  override readonly name = 'EndOfFileError';
}

export class FileWindow {
  readonly #fd: number;
  readonly #fileBytes: number;
  #window = Buffer.alloc(0);
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
   * Adds the next string (a 64-bit length, then its bytes) to `texts` if its length fits 16 bits and the window has all of
   * it. Otherwise returns false and reads nothing.
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
    // Most strings are a few bytes long, for which making a view costs more than this copy.
    for (let i = 0; i < length; i++) bytes[to + i] = window[start + i] as number;
    texts.end(length);
    this.#position += 8 + length;
    return true;
  }

  /** Copies the next bytes to `target`, from index `at` on. */
  copyTo(target: Uint8Array, at: number, length: number): void {
    const from = this.#advance(length);
    target.set(this.#window.subarray(from, from + length), at);
  }

  /** A copy of the next bytes in memory of its own, so that typed arrays over it are aligned. */
  bytes(length: number): Uint8Array<ArrayBuffer> {
    const at = this.#advance(length);
    return new Uint8Array(this.#window.subarray(at, at + length));
  }

  /** The next bytes as text, or the bytes themselves if they are not UTF-8. A byte order mark is kept. */
  utf8(length: number): string | Uint8Array {
    const at = this.#advance(length);
    const text = this.#window.toString('utf8', at, at + length);
    // Decoding puts U+FFFD in place of invalid bytes. Only encoding again tells it from a U+FFFD in the file.
    if (!text.includes('\uFFFD')) return text;
    const bytes = this.#window.subarray(at, at + length);
    return Buffer.from(text, 'utf8').equals(bytes) ? text : new Uint8Array(bytes);
  }

  /** Moves past the next bytes and returns where they start in the window, which is refilled if it does not hold them all. */
  #advance(length: number): number {
    if (length > this.remainingBytes)
      throw new EndOfFileError(
        `${length} bytes are announced at offset ${this.#position}, but the file ends ${this.remainingBytes} bytes later`,
      );
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
      if (read === 0)
        throw new EndOfFileError(
          `the file ended at offset ${this.#position + filled} while it was being read`,
        );
      filled += read;
    }
    this.#window = window;
    this.#windowOffset = this.#position;
  }
}
