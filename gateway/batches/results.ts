import { constants } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';

/**
 * The results of a batch that has not ended, in the order in which they came. Each is a header, "NUMBER KIND LENGTH", a line of the
 * output or of the errors, and a newline. It is on the disk before the job of its line is forgotten. So a line whose result a death
 * has cut off still has its answer in the journal; the next process removes what was cut off.
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
  readonly from: number;
  readonly length: number;
}

const HEADER = /^(\d{1,9}) (output|error) (\d{1,12}) /;
const MAX_HEADER_BYTES = 40;
const NEWLINE = 10;

export class Results {
  readonly #file: FileHandle;
  readonly #places = new Map<number, Place>();
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
      while (await results.#readNext()) {}
      await results.#file.truncate(results.#length);
      return results;
    } catch (error) {
      await results.#file.close();
      throw error;
    }
  }

  /** What the result takes. */
  static bytesOf(result: Result): number {
    return headerOf(result).length + Buffer.byteLength(result.text) + 1;
  }

  get numBytes(): number {
    return this.#length;
  }

  has(number: number): boolean {
    return this.#places.has(number);
  }

  count(kind: ResultKind): number {
    return [...this.#places.values()].filter((place) => place.kind === kind).length;
  }

  /** When this resolves, the result is on the disk. A line has one result. If it rejects, it can be tried again. */
  add(result: Result): Promise<void> {
    const write = this.#writing.then(() => this.#write(result));
    this.#writing = write.catch(() => {});
    return write;
  }

  /** The line of the output or of the errors. */
  async read(number: number): Promise<Result | undefined> {
    const place = this.#places.get(number);
    if (place === undefined) return undefined;
    const { kind, from, length } = place;
    return { number, kind, text: (await this.#at(from, length)).toString() };
  }

  async close(): Promise<void> {
    await this.#writing;
    await this.#file.close();
  }

  async #write(result: Result): Promise<void> {
    const { number, kind, text } = result;
    if (this.#places.has(number)) throw new Error(`line ${number} has a result already`);
    const header = headerOf(result);
    const bytes = Buffer.from(`${header}${text}\n`);
    // A write that the disk refused is written over.
    for (let done = 0; done < bytes.length; )
      done += (await this.#file.write(bytes, done, bytes.length - done, this.#length + done)).bytesWritten;
    await this.#file.datasync();
    this.#places.set(number, {
      kind,
      from: this.#length + header.length,
      length: bytes.length - header.length - 1,
    });
    this.#length += bytes.length;
  }

  /** Returns false at the end of what was written whole. */
  async #readNext(): Promise<boolean> {
    const [header = '', number, kind, length] =
      HEADER.exec((await this.#at(this.#length, MAX_HEADER_BYTES)).toString('latin1')) ?? [];
    const place = { kind: kind as ResultKind, from: this.#length + header.length, length: Number(length) };
    if (header === '' || (await this.#at(place.from + place.length, 1))[0] !== NEWLINE) return false;
    this.#places.set(Number(number), place);
    this.#length = place.from + place.length + 1;
    return true;
  }

  async #at(position: number, length: number): Promise<Buffer> {
    const { buffer, bytesRead } = await this.#file.read(Buffer.alloc(length), 0, length, position);
    return buffer.subarray(0, bytesRead);
  }
}

function headerOf({ number, kind, text }: Result): string {
  return `${number} ${kind} ${Buffer.byteLength(text)} `;
}
