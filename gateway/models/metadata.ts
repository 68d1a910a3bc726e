/**
 * Metadata of a GGUF file, looked up by key and type. A value of another type is an error that names the key and both types.
 * Nothing is converted: a file with an int8 in place of a token count is either damaged or made to mislead.
 */
import { firstInvalidUtf8, type PackedTexts } from '../tokenizer/packed-texts.ts';

/** In the order of their tags, from 0. */
export const valueTypes = [
  'uint8',
  'int8',
  'uint16',
  'int16',
  'uint32',
  'int32',
  'float32',
  'bool',
  'string',
  'array',
  'uint64',
  'int64',
  'float64',
] as const;

export type ValueType = (typeof valueTypes)[number];
export type NumberType = Exclude<ValueType, 'bool' | 'string' | 'array'>;

/** Text, or the raw bytes if they are not UTF-8. */
export type GgufString = string | Uint8Array;

/** How each number type is stored. Files are little-endian, as this machine is. */
export const numberArrays = {
  uint8: Uint8Array,
  int8: Int8Array,
  uint16: Uint16Array,
  int16: Int16Array,
  uint32: Uint32Array,
  int32: Int32Array,
  float32: Float32Array,
  uint64: BigUint64Array,
  int64: BigInt64Array,
  float64: Float64Array,
} as const;

type NumberArray = (typeof numberArrays)[NumberType]['prototype'];

export type GgufValue =
  | { readonly type: NumberType; readonly value: number | bigint }
  | { readonly type: 'bool'; readonly value: boolean }
  | { readonly type: 'string'; readonly value: GgufString }
  | { readonly type: 'array'; readonly of: 'string'; readonly value: PackedTexts }
  | { readonly type: 'array'; readonly of: 'bool'; readonly value: Uint8Array }
  | { readonly type: 'array'; readonly of: NumberType; readonly value: NumberArray };

/** A key is missing or has an impossible value. The message has no path; whoever opened the file adds it. */
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

  /** The value of `key` as text. Throws MetadataError if it is absent or not UTF-8. */
  string(key: string): string {
    return required(key, this.optionalString(key));
  }

  optionalString(key: string): string | undefined {
    const value = this.#find(key, 'string', (found) => (found.type === 'string' ? found.value : undefined));
    if (value === undefined || typeof value === 'string') return value;
    throw new MetadataError(`${key} is not UTF-8`);
  }

  uint32(key: string): number {
    return required(key, this.optionalUint32(key));
  }

  optionalUint32(key: string): number | undefined {
    return this.#find(key, 'uint32', ({ type, value }) => (type === 'uint32' ? Number(value) : undefined));
  }

  /** A whole number of any integer type, at most 2^32: writers differ in how they store small counts. */
  optionalCount(key: string): number | undefined {
    const isWhole = /^u?int(8|16|32|64)$/;
    const count = this.#find(key, 'a whole number', ({ type, value }) =>
      isWhole.test(type) ? Number(value) : undefined,
    );
    if (count !== undefined && (count < 0 || count > 2 ** 32))
      throw new MetadataError(`the key ${key} is ${count}; it must be from 0 to ${2 ** 32}`);
    return count;
  }

  optionalBool(key: string): boolean | undefined {
    return this.#find(key, 'bool', (found) => (found.type === 'bool' ? found.value : undefined));
  }

  /** The strings of an array. Throws MetadataError if it is absent or an entry is not UTF-8. */
  texts(key: string): PackedTexts {
    const texts = this.#find(key, 'array of string', (found) =>
      found.type === 'array' && found.of === 'string' ? found.value : undefined,
    );
    const present = required(key, texts);
    const index = firstInvalidUtf8(present);
    if (index >= 0) throw new MetadataError(`${key}[${index}] is not UTF-8`);
    return present;
  }

  optionalFloat32Array(key: string): Float32Array | undefined {
    return this.#find(key, 'array of float32', ({ value }) =>
      value instanceof Float32Array ? value : undefined,
    );
  }

  /** An array of bytes, which some writers take for signed numbers. */
  optionalBytes(key: string): Uint8Array | undefined {
    return this.#find(key, 'array of uint8', (found) => {
      if (found.type !== 'array' || (found.of !== 'uint8' && found.of !== 'int8')) return undefined;
      const { buffer, byteOffset, byteLength } = found.value as Uint8Array;
      return new Uint8Array(buffer, byteOffset, byteLength);
    });
  }

  optionalInt32Array(key: string): Int32Array | undefined {
    return this.#find(key, 'array of int32', ({ value }) =>
      value instanceof Int32Array ? value : undefined,
    );
  }

  /** Undefined for a key that is absent. Throws MetadataError if `pick` returns undefined for its value. */
  #find<T>(key: string, wanted: string, pick: (found: GgufValue) => T | undefined): T | undefined {
    const found = this.#values.get(key);
    if (found === undefined) return undefined;
    const value = pick(found);
    if (value !== undefined) return value;
    const type = found.type === 'array' ? `array of ${found.of}` : found.type;
    throw new MetadataError(`the key ${key} has type ${type}, but it has to be ${wanted}`);
  }
}

function required<T>(key: string, value: T | undefined): T {
  if (value === undefined) throw new MetadataError(`the key ${key} is missing`);
  return value;
}
