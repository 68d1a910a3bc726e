/**
 * What a runner says on stderr, as lines fit for a log: control characters escaped, long lines cut, and a flood dropped
 * (but always read, so that the runner never waits for us). The last bytes are kept whatever the rate: in a crash they
 * are the only words there are.
 */
import { StringDecoder } from 'node:string_decoder';
import { escapeControls } from './printable.ts';

/** All in UTF-16 units, which are bytes for the ASCII that runners write. */
export const maxLengthPerSecond = 64 * 1024;
export const maxLineLength = 4 * 1024;
export const maxTailLength = 8 * 1024;

export class StderrReader {
  readonly #onLine: (line: string) => void;
  readonly #now: () => number;
  readonly #decoder = new StringDecoder('utf8');
  #line = '';
  #isCut = false;
  #tail = '';
  #windowStart = Number.NEGATIVE_INFINITY;
  #windowLength = 0;
  #numDropped = 0;

  /** now: milliseconds that only grow. */
  constructor(onLine: (line: string) => void, now: () => number) {
    this.#onLine = onLine;
    this.#now = now;
  }

  push(chunk: Uint8Array): void {
    this.#pushText(this.#decoder.write(Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength)));
  }

  /** To be called at the end of the stream: gives the last line when it has no newline. */
  end(): void {
    this.#pushText(this.#decoder.end());
    if (this.#line !== '') this.#endLine();
    this.#reportDropped();
  }

  /** The last lines, whole or cut in front. */
  get tail(): string {
    return this.#tail;
  }

  #pushText(text: string): void {
    let start = 0;
    for (;;) {
      const newline = text.indexOf('\n', start);
      this.#appendToLine(text.slice(start, newline === -1 ? undefined : newline));
      if (newline === -1) return;
      this.#endLine();
      start = newline + 1;
    }
  }

  #appendToLine(text: string): void {
    const room = maxLineLength - this.#line.length;
    this.#line += text.slice(0, room);
    if (text.length > room) this.#isCut = true;
  }

  #endLine(): void {
    const line = escapeControls(this.#line.replace(/\r$/, '')) + (this.#isCut ? ' [cut]' : '');
    this.#line = '';
    this.#isCut = false;
    this.#tail = `${this.#tail}${line}\n`.slice(-maxTailLength);
    const now = this.#now();
    if (now - this.#windowStart >= 1000) {
      this.#windowStart = now;
      this.#windowLength = 0;
      this.#reportDropped();
    }
    // With its newline: a flood of empty lines is one, too.
    this.#windowLength += line.length + 1;
    if (this.#windowLength > maxLengthPerSecond) {
      this.#numDropped += 1;
    } else {
      this.#onLine(line);
    }
  }

  #reportDropped(): void {
    if (this.#numDropped === 0) return;
    const lines = this.#numDropped;
    this.#numDropped = 0;
    this.#onLine(`[${lines} lines dropped: more than ${maxLengthPerSecond} characters in a second]`);
  }
}
