import { createHash } from 'node:crypto';
import { constants } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';

/**
 * The results of a batch that has not ended, in the order in which they came. Each is a header, "NUMBER KIND LENGTH SEAL", a line of
 * the output or of the errors, and a newline. It is on the disk before the next one is written, and before the job of its line is
 * forgotten. So a line whose result a death has cut off still has its answer in the journal; the next process removes what was cut off.
 * The seal shows a result of the right length whose bytes were not on the disk when the power failed.
 */

type ResultKind = 'output' | 'error';

export interface Result {
  /** The number of the line. */
  readonly number: number;
  readonly kind: ResultKind;
  /** A line of a file, without its newline. */
  readonly text: string;
}

interface Place {
  readonly kind: ResultKind;
  /** Of the header, and of the text. */
  readonly begin: number;
  readonly from: number;
  readonly length: number;
  readonly seal: string;
}

const HEADER = /^(\d{1,9}) (output|error) (\d{1,12}) ([0-9a-f]{16}) /;
const NO_SEAL = '0'.repeat(16);
const MAX_HEADER_BYTES = 60;
const NEWLINE = 10;

export class Results {
  readonly #file: FileHandle;
  readonly #places = new Map<number, Place>();
  readonly #counts: Record<ResultKind, number> = { output: 0, error: 0 };
  #length = 0;
  /** The write under way. The next one begins after it. */
  #writing: Promise<void> = Promise.resolve();

  private constructor(file: FileHandle) {
    this.#file = file;
  }

  static async open(path: string): Promise<Results> {
    // Made if it is not there. In the mode "a" Linux would write at the end, whatever the position.
    const file = await open(path, constants.O_RDWR | constants.O_CREAT, 0o600);
    const results = new Results(file);
    try {
      const last = await results.#readAll();
      if (last !== undefined && (await results.read(last)) === undefined) results.#removeLast(last);
      await results.#file.truncate(results.#length);
      return results;
    } catch (error) {
      await results.#file.close();
      throw error;
    }
  }

  /** What the result takes. */
  static bytesOf(result: Result): number {
    return headerOf(result, NO_SEAL).length + Buffer.byteLength(result.text) + 1;
  }

  get numBytes(): number {
    return this.#length;
  }

  /** Of the lines that have one, in order. */
  get numbers(): readonly number[] {
    return [...this.#places.keys()].sort((a, b) => a - b);
  }

  has(number: number): boolean {
    return this.#places.has(number);
  }

  count(kind: ResultKind): number {
    return this.#counts[kind];
  }

  /** When this resolves, the result is on the disk. A line has one result. If it rejects, it can be tried again. */
  add(result: Result): Promise<void> {
    const write = this.#writing.then(() => this.#write(result));
    this.#writing = write.catch(() => {});
    return write;
  }

  /** The line of the output or of the errors; undefined if there is none, or if its bytes are not those that were written. */
  async read(number: number): Promise<Result | undefined> {
    const place = this.#places.get(number);
    if (place === undefined) return undefined;
    const { kind, from, length, seal } = place;
    const result = { number, kind, text: (await this.#at(from, length)).toString() };
    return sealOf(result) === seal ? result : undefined;
  }

  async close(): Promise<void> {
    await this.#writing;
    await this.#file.close();
  }

  async #write(result: Result): Promise<void> {
    const { number, kind, text } = result;
    if (this.#places.has(number)) throw new Error(`line ${number} has a result already`);
    const seal = sealOf(result);
    const header = headerOf(result, seal);
    const bytes = Buffer.from(`${header}${text}\n`);
    // A write that the disk refused is written over.
    for (let done = 0; done < bytes.length; )
      done += (await this.#file.write(bytes, done, bytes.length - done, this.#length + done)).bytesWritten;
    await this.#file.datasync();
    const length = bytes.length - header.length - 1;
    this.#add(number, { kind, begin: this.#length, from: this.#length + header.length, length, seal });
  }

  /** Returns the number of the last line. */
  async #readAll(): Promise<number | undefined> {
    let last: number | undefined;
    for (;;) {
      const next = await this.#readNext();
      if (next === undefined) return last;
      last = next;
    }
  }

  /** The number of the next line; undefined at the end of what was written whole. */
  async #readNext(): Promise<number | undefined> {
    const [header = '', number, kind, length, seal = ''] =
      HEADER.exec((await this.#at(this.#length, MAX_HEADER_BYTES)).toString('latin1')) ?? [];
    const [begin, from] = [this.#length, this.#length + header.length];
    const place = { kind: kind as ResultKind, begin, from, length: Number(length), seal };
    if (header === '' || (await this.#at(place.from + place.length, 1))[0] !== NEWLINE) return undefined;
    this.#add(Number(number), place);
    return Number(number);
  }

  /** A result that ends the file. */
  #add(number: number, place: Place): void {
    this.#places.set(number, place);
    this.#counts[place.kind] += 1;
    this.#length = place.from + place.length + 1;
  }

  #removeLast(number: number): void {
    const { kind, begin } = this.#places.get(number) as Place;
    this.#places.delete(number);
    this.#counts[kind] -= 1;
    this.#length = begin;
  }

  async #at(position: number, length: number): Promise<Buffer> {
    const { buffer, bytesRead } = await this.#file.read(Buffer.alloc(length), 0, length, position);
    return buffer.subarray(0, bytesRead);
  }
}

function headerOf({ number, kind, text }: Result, seal: string): string {
  return `${number} ${kind} ${Buffer.byteLength(text)} ${seal} `;
}

function sealOf({ number, kind, text }: Result): string {
  return createHash('sha256').update(`${number} ${kind} ${text}`).digest('hex').slice(0, NO_SEAL.length);
}
