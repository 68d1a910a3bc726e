/**
 * Turns a runner's stderr into lines for a log: control characters are escaped, long lines cut, and a flood is dropped. The
 * last characters are kept at any rate, because after a crash they may be the only explanation. Work is done once for each
 * chunk, not for each line. Above a rate, nothing is read for the rest of the second, and the runner waits.
 */
import { StringDecoder } from 'node:string_decoder';
import { escapeControls } from '../../system/printable.ts';

/** Limits of what is logged and kept, in UTF-16 units, which are bytes for the ASCII that runners write. */
export const maxLengthPerSecond = 64 * 1024;
/** A shorter line counts as this long, because each line is an entry of the log. */
export const minLineLength = 64;
export const maxLineLength = 4 * 1024;
export const maxTailLength = 8 * 1024;
/** Bytes read in a second, mostly to be dropped, before reading stops for the rest of that second. */
export const maxReadPerSecond = 1024 * 1024;

const windowMs = 1000;

export class StderrReader {
  readonly #onLine: (line: string) => void;
  readonly #now: () => number;
  readonly #decoder = new StringDecoder('utf8');
  #line = '';
  #isCut = false;
  #tail = '';
  #windowStart = Number.NEGATIVE_INFINITY;
  #numRead = 0;
  #loggedLength = 0;
  #numDropped = 0;

  /** now: a monotonic clock in milliseconds. */
  constructor(onLine: (line: string) => void, now: () => number) {
    this.#onLine = onLine;
    this.#now = now;
  }

  push(chunk: Uint8Array): void {
    this.#beginWindow();
    this.#numRead += chunk.length;
    this.#pushText(this.#decoder.write(Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength)));
  }

  /** Call it at the end of the stream. Passes on a last line without a newline. */
  end(): void {
    this.#pushText(this.#decoder.end());
    if (this.#line !== '') this.#pushText('\n');
    this.#reportDropped();
  }

  /** Milliseconds for which nothing more is to be read; 0 below the rate. */
  get pauseMs(): number {
    if (this.#numRead <= maxReadPerSecond) return 0;
    return Math.max(0, this.#windowStart + windowMs - this.#now());
  }

  /** The last lines; the first of them may be cut at its start. */
  get tail(): string {
    const lines = this.#tail.split('\n').map((line) => escapeControls(line.replace(/\r$/, '')));
    return lines.join('\n').slice(-maxTailLength);
  }

  #beginWindow(): void {
    const now = this.#now();
    if (now - this.#windowStart < windowMs) return;
    this.#windowStart = now;
    this.#numRead = 0;
    this.#loggedLength = 0;
    this.#reportDropped();
  }

  #pushText(text: string): void {
    this.#tail = (this.#tail + text.slice(-maxTailLength)).slice(-maxTailLength);
    let start = 0;
    for (;;) {
      const newline = text.indexOf('\n', start);
      if (newline === -1) break;
      if (this.#loggedLength >= maxLengthPerSecond) this.#dropLine();
      else this.#endLine(text.slice(start, newline));
      start = newline + 1;
    }
    this.#appendToLine(text.slice(start));
  }

  #appendToLine(text: string): void {
    const room = maxLineLength - this.#line.length;
    this.#line += text.slice(0, room);
    if (text.length > room) this.#isCut = true;
  }

  #endLine(rest: string): void {
    this.#appendToLine(rest);
    const line = escapeControls(this.#line.replace(/\r$/, '')) + (this.#isCut ? ' [cut]' : '');
    this.#line = '';
    this.#isCut = false;
    this.#loggedLength += Math.max(minLineLength, line.length + 1);
    if (this.#loggedLength > maxLengthPerSecond) this.#numDropped += 1;
    else this.#onLine(line);
  }

  #dropLine(): void {
    this.#line = '';
    this.#isCut = false;
    this.#numDropped += 1;
  }

  #reportDropped(): void {
    if (this.#numDropped === 0) return;
    const lines = this.#numDropped;
    this.#numDropped = 0;
    this.#onLine(`[${lines} lines dropped: more than ${maxLengthPerSecond} characters in a second]`);
  }
}
