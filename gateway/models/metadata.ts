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

/** The numbers of an array, all of one type. */
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

  /** A whole number of any integer type, at most 2^32: writers differ in how they store small counts. */
  optionalCount(key: string): number | undefined {
    const found = this.#values.get(key);
    if (found === undefined) return undefined;
    if (!/^u?int(8|16|32|64)$/.test(found.type)) throw wrongType(key, found, 'a whole number');
    const count = Number(found.value);
    if (count < 0 || count > 2 ** 32)
      throw new MetadataError(`the key ${key} is ${count}; it must be from 0 to ${2 ** 32}`);
    return count;
  }

  optionalBool(key: string): boolean | undefined {
    const found = this.#values.get(key);
    if (found === undefined) return undefined;
    if (found.type !== 'bool') throw wrongType(key, found, 'bool');
    return found.value;
  }

  /** The strings of an array. Throws MetadataError if it is absent or an entry is not UTF-8. */
  texts(key: string): PackedTexts {
    const found = this.#values.get(key);
    if (found === undefined) throw new MetadataError(`the key ${key} is missing`);
    if (found.type !== 'array' || found.of !== 'string') throw wrongType(key, found, 'array of string');
    const index = firstInvalidUtf8(found.value);
    if (index >= 0) throw new MetadataError(`${key}[${index}] is not UTF-8`);
    return found.value;
  }

  optionalFloat32Array(key: string): Float32Array | undefined {
    const found = this.#values.get(key);
    if (found === undefined) return undefined;
    if (found.type !== 'array' || !(found.value instanceof Float32Array)) {
      throw wrongType(key, found, 'array of float32');
    }
    return found.value;
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
