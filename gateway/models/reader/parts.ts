/**
 * Messages with large arrays, sent in parts: a vocabulary has many megabytes, and receiving them at once would hold up the event
 * loop.
 */
import { isTypedArray } from 'node:util/types';

/** The most bytes of one part. */
const partBytes = 2 ** 18;

const arrays = { Uint8Array, Int32Array, Uint32Array } as const;
type ArrayKind = keyof typeof arrays;
type SentArray = InstanceType<(typeof arrays)[ArrayKind]>;

/** What a message has in place of an array. */
interface Place {
  readonly arrayIndex: number;
  readonly kind: ArrayKind;
  readonly length: number;
}

/** The first part has the message with a Place for each array, and the others have the bytes of the arrays in order. */
export type Part = { readonly message: unknown; readonly numBytes: number } | { readonly bytes: Uint8Array };

/** A message that has no arrays is one part. */
export function partOf(message: unknown): Part {
  return { message, numBytes: 0 };
}

/** The parts of a message whose arrays are members of plain objects, at any depth. */
export function* partsOf(message: unknown): Generator<Part> {
  const found: SentArray[] = [];
  const shape = withPlaces(message, found);
  yield { message: shape, numBytes: found.reduce((sum, { byteLength }) => sum + byteLength, 0) };
  for (const { buffer, byteOffset, byteLength } of found) {
    for (let at = 0; at < byteLength; at += partBytes)
      yield { bytes: new Uint8Array(buffer, byteOffset + at, Math.min(partBytes, byteLength - at)) };
  }
}

function withPlaces(value: unknown, found: SentArray[]): unknown {
  if (isTypedArray(value)) {
    const kind = value.constructor.name;
    if (!isKind(kind)) throw new TypeError(`An array of the kind ${kind} cannot be sent.`);
    const place: Place = { arrayIndex: found.length, kind, length: value.length };
    found.push(value as SentArray);
    return place;
  }
  if (!isPlainObject(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, withPlaces(member, found)]));
}

function isKind(name: string): name is ArrayKind {
  return name in arrays;
}

function isPlainObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype;
}

/** Joins the parts of one message after another. */
export class PartReceiver {
  #message: unknown;
  #arrays: SentArray[] = [];
  #bytes: Uint8Array[] = [];
  #missingBytes = 0;
  /** The array that the next bytes belong to, and where in it. */
  #index = 0;
  #at = 0;

  /** Returns the message as a member of an object if this part is its last one. */
  take(part: Part): { readonly message: unknown } | undefined {
    if ('message' in part) this.#begin(part.message, part.numBytes);
    else this.#write(part.bytes);
    return this.#missingBytes === 0 ? { message: this.#message } : undefined;
  }

  #begin(message: unknown, numBytes: number): void {
    this.#arrays = [];
    this.#message = numBytes === 0 ? message : this.#withArrays(message);
    this.#bytes = this.#arrays.map(
      ({ buffer, byteOffset, byteLength }) => new Uint8Array(buffer, byteOffset, byteLength),
    );
    this.#missingBytes = numBytes;
    this.#index = 0;
    this.#at = 0;
  }

  #withArrays(value: unknown): unknown {
    if (!isPlainObject(value)) return value;
    if (isPlace(value)) {
      const array = new arrays[value.kind](value.length);
      this.#arrays[value.arrayIndex] = array;
      return array;
    }
    return Object.fromEntries(
      Object.entries(value).map(([name, member]) => [name, this.#withArrays(member)]),
    );
  }

  /** A part never has bytes of two arrays. */
  #write(bytes: Uint8Array): void {
    while (this.#at === this.#bytes[this.#index]?.length) {
      this.#index++;
      this.#at = 0;
    }
    this.#bytes[this.#index]?.set(bytes, this.#at);
    this.#at += bytes.length;
    this.#missingBytes -= bytes.length;
  }
}

function isPlace(value: object): value is Place {
  return 'arrayIndex' in value && 'kind' in value && 'length' in value;
}
