/**
 * What a runner says on stderr, as lines fit for a log: control characters escaped, long lines cut, and a flood dropped.
 * The last characters are kept whatever the rate: in a crash they are the only words there are. Work is done once a chunk, not
 * once a line, and above a rate nothing is read for the rest of the second: it is the runner that waits then.
 */
import { StringDecoder } from 'node:string_decoder';
import { escapeControls } from '../../system/printable.ts';

/** All in UTF-16 units, which are bytes for the ASCII that runners write. */
export const maxLengthPerSecond = 64 * 1024;
/** What a line counts at least, however short: each is an entry of the log. */
export const minLineLength = 64;
export const maxLineLength = 4 * 1024;
export const maxTailLength = 8 * 1024;
/** Read, and most of it dropped, before reading stops for the rest of the second. */
export const maxReadPerSecond = 1024 * 1024;

const windowMs = 1000;

export class StderrReader {
  readonly #onLine: (line: string) => void;
  readonly #now: () => number;
  readonly #decoder = new StringDecoder('utf8');
  #line = '';
  #isCut = false;
  /** As it came. */
  #tail = '';
  #windowStart = Number.NEGATIVE_INFINITY;
  #numRead = 0;
  #loggedLength = 0;
  #numDropped = 0;

  /** now: milliseconds that only grow. */
  constructor(onLine: (line: string) => void, now: () => number) {
    this.#onLine = onLine;
    this.#now = now;
  }

  push(chunk: Uint8Array): void {
    this.#beginWindow();
    this.#numRead += chunk.length;
    this.#pushText(this.#decoder.write(Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength)));
  }

  /** To be called at the end of the stream: gives the last line when it has no newline. */
  end(): void {
    this.#pushText(this.#decoder.end());
    if (this.#line !== '') this.#pushText('\n');
    this.#reportDropped();
  }

  /** For how long nothing more is to be read; 0 below the rate. */
  get pauseMs(): number {
    if (this.#numRead <= maxReadPerSecond) return 0;
    return Math.max(0, this.#windowStart + windowMs - this.#now());
  }

  /** The last lines, whole or cut in front. */
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
