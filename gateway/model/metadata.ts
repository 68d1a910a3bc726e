/**
 * Metadata of a GGUF file, looked up by key and type. A value of another type than asked for is an error that names
 * the key and both types: nothing is converted, since a file that says int8 where a number of tokens belongs is either
 * damaged or made to mislead.
 */
import type { Steps } from '../ops/long-work.ts';
import type { GgufString, GgufValue } from './gguf-types.ts';

/** Entries of an array that are looked at in a step. */
const stepEntries = 4096;

/** A key is missing or has a value that cannot be. Carries no path: whoever opened the file adds it. */
export class MetadataError extends Error {
  override readonly name = 'MetadataError';
}

export class Metadata {
  readonly #values: ReadonlyMap<string, GgufValue>;

  constructor(values: ReadonlyMap<string, GgufValue>) {
    this.#values = values;
  }

  get size(): number {
    return this.#values.size;
  }

  has(key: string): boolean {
    return this.#values.has(key);
  }

  get(key: string): GgufValue | undefined {
    return this.#values.get(key);
  }

  /** Value of `key` as text; MetadataError when it is absent or not UTF-8. */
  string(key: string): string {
    return this.#required(key, this.optionalString(key));
  }

  optionalString(key: string): string | undefined {
    const found = this.#values.get(key);
    if (found === undefined) return undefined;
    if (found.type !== 'string') throw wrongType(key, found, 'string');
    return textOf(found.value, key);
  }

  uint32(key: string): number {
    return this.#required(key, this.optionalUint32(key));
  }

  optionalUint32(key: string): number | undefined {
    const found = this.#values.get(key);
    if (found === undefined) return undefined;
    if (found.type !== 'uint32') throw wrongType(key, found, 'uint32');
    return Number(found.value);
  }

  /** A whole number of any type, at most 2^32: writers differ in how they store small counts. */
  optionalCount(key: string): number | undefined {
    const found = this.#values.get(key);
    if (found === undefined) return undefined;
    if (!/^u?int(8|16|32|64)$/.test(found.type)) throw wrongType(key, found, 'a whole number');
    const count = Number(found.value);
    if (count < 0 || count > 2 ** 32)
      throw new MetadataError(`the key ${key} is ${count}, which is no count`);
    return count;
  }

  optionalBool(key: string): boolean | undefined {
    const found = this.#values.get(key);
    if (found === undefined) return undefined;
    if (found.type !== 'bool') throw wrongType(key, found, 'bool');
    return found.value;
  }

  /** Every entry has to be UTF-8. */
  *stringArray(key: string): Steps<readonly string[]> {
    const found = this.#values.get(key);
    if (found === undefined) throw new MetadataError(`the key ${key} is missing`);
    if (found.type !== 'array' || found.of !== 'string') throw wrongType(key, found, 'array of string');
    const texts = new Array<string>(found.value.length);
    for (const [index, entry] of found.value.entries()) {
      texts[index] = typeof entry === 'string' ? entry : textOf(entry, `${key}[${index}]`);
      if (index % stepEntries === 0) yield;
    }
    return texts;
  }

  optionalInt32Array(key: string): Int32Array | undefined {
    const found = this.#values.get(key);
    if (found === undefined) return undefined;
    if (found.type !== 'array' || !(found.value instanceof Int32Array)) {
      throw wrongType(key, found, 'array of int32');
    }
    return found.value;
  }

  #required<T>(key: string, value: T | undefined): T {
    if (value === undefined) throw new MetadataError(`the key ${key} is missing`);
    return value;
  }
}

function textOf(value: GgufString, what: string): string {
  if (typeof value === 'string') return value;
  throw new MetadataError(`${what} is not UTF-8`);
}

function wrongType(key: string, found: GgufValue, wanted: string): MetadataError {
  const type = found.type === 'array' ? `array of ${found.of}` : found.type;
  return new MetadataError(`the key ${key} has type ${type}, but it has to be ${wanted}`);
}
