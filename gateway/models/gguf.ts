/**
 * Reads the metadata of a GGUF file, version 2 or 3, and checks its tensor table without reading a weight.
 *
 * The file is hostile until proven otherwise. Each count is checked against a limit and against the remaining bytes before
 * anything is allocated for it. Each tensor is proven to lie inside the file, so that a truncated download is refused here
 * with a sentence instead of crashing a runner later. Format: docs/gguf.md of the ggml project.
 */
import { type PackedTexts, TextPacker } from '../tokenizer/packed-texts.ts';
import { EndOfFileError, FileWindow } from './file-window.ts';
import {
  type GgufString,
  type GgufValue,
  Metadata,
  type NumberType,
  numberArrays,
  type ValueType,
  valueTypes,
} from './metadata.ts';

const magic = 0x46554747; // "GGUF"
export const limits = {
  metadataBytes: 256 * 2 ** 20,
  stringBytes: 16 * 2 ** 20,
  keyBytes: 65_535,
  tensorNameBytes: 1024,
  arrayLength: 2 ** 24,
  metadataEntries: 65_536,
  tensors: 65_536,
  dimensions: 4,
  alignmentBytes: 65_536,
} as const;
/** First guess of the mean length of the strings in an array. */
const guessedStringBytes = 8;
const defaultAlignmentBytes = 32;

/** The file breaks the format. The message has no path; whoever opened the file adds it. */
export class GgufError extends Error {
  override readonly name = 'GgufError';
}

/**
 * Returns the metadata of the open file `fd` of `fileBytes` bytes, after checking the whole header. Throws GgufError,
 * MetadataError or EndOfFileError, whose messages have no path, and the errors of reading itself.
 */
export function readGguf(fd: number, fileBytes: number): Metadata {
  const file = new FileWindow(fd, fileBytes);
  if (file.remainingBytes < 4 || file.uint32() !== magic)
    throw new GgufError('it does not begin with the letters GGUF');
  const version = file.uint32();
  if (version === 0x0300_0000 || version === 0x0200_0000)
    throw new GgufError('it is big-endian, which is not supported');
  if (version !== 2 && version !== 3)
    throw new GgufError(`its GGUF version is ${version}; 2 and 3 are supported`);
  const numTensors = count(file.uint64(), limits.tensors, 'tensors');
  const numEntries = count(file.uint64(), limits.metadataEntries, 'metadata entries');

  const metadata = readMetadata(file, numEntries);
  checkTensors(file, numTensors, alignmentOf(metadata), fileBytes);
  return metadata;
}

function readMetadata(file: FileWindow, numEntries: number): Metadata {
  const values = new Map<string, GgufValue>();
  for (let i = 0; i < numEntries; i++) {
    const key = readString(file, limits.keyBytes, `the name of metadata entry ${i}`);
    if (typeof key !== 'string') throw new GgufError(`the name of metadata entry ${i} is not UTF-8`);
    if (values.has(key)) throw new GgufError(`the key ${key} appears twice`);
    values.set(key, readValue(file, key));
    if (file.position > limits.metadataBytes)
      throw new GgufError(`its metadata exceeds ${limits.metadataBytes} bytes at the key ${key}`);
  }
  return new Metadata(values);
}

function readValue(file: FileWindow, key: string): GgufValue {
  const type = readType(file, key);
  switch (type) {
    case 'string':
      return { type, value: readString(file, limits.stringBytes, `the key ${key}`) };
    case 'bool':
      return { type, value: checkBool(file.uint8(), key) === 1 };
    case 'array':
      return readArray(file, key);
    default:
      // biome-ignore lint/style/noNonNullAssertion: an array of one number has a first
      return { type, value: readNumbers(file, type, 1)[0]! };
  }
}

function readArray(file: FileWindow, key: string): GgufValue {
  const of = readType(file, key);
  if (of === 'array') throw new GgufError(`the key ${key} is an array of arrays, which is not supported`);
  const length = count(file.uint64(), limits.arrayLength, `elements of ${key}`);
  if (of === 'string') {
    // Each string takes at least the 8 bytes of its length, so a count that the file cannot hold is refused before it is
    // allocated.
    if (length * 8 > file.remainingBytes) throw tooShort(key, length, file);
    return { type: 'array', of, value: readStrings(file, key, length) };
  }
  if (of === 'bool') {
    if (length > file.remainingBytes) throw tooShort(key, length, file);
    const bools = file.bytes(length);
    for (const byte of bools) checkBool(byte, key);
    return { type: 'array', of, value: bools };
  }
  if (length * numberArrays[of].BYTES_PER_ELEMENT > file.remainingBytes) throw tooShort(key, length, file);
  return { type: 'array', of, value: readNumbers(file, of, length) };
}

function readNumbers(file: FileWindow, type: NumberType, length: number) {
  const array = numberArrays[type];
  return new array(file.bytes(length * array.BYTES_PER_ELEMENT).buffer);
}

function readType(file: FileWindow, key: string): ValueType {
  const tag = file.uint32();
  const type = valueTypes[tag];
  if (type === undefined) throw new GgufError(`the key ${key} has type ${tag}, which does not exist`);
  return type;
}

function readString(file: FileWindow, maxBytes: number, what: string): GgufString {
  return file.utf8(stringBytes(file, maxBytes, () => what));
}

function readStrings(file: FileWindow, key: string, length: number): PackedTexts {
  const texts = new TextPacker(length, Math.min(length * guessedStringBytes, file.remainingBytes));
  for (let i = 0; i < length; i++) {
    if (file.takeText(texts)) continue;
    const numBytes = stringBytes(file, limits.stringBytes, () => `${key}[${i}]`);
    if (numBytes > file.remainingBytes) throw tooShort(`${key}[${i}]`, numBytes, file);
    const { bytes, at } = texts.begin(numBytes);
    file.copyTo(bytes, at, numBytes);
    texts.end(numBytes);
  }
  return texts.finish();
}

/** Reads the length in bytes at the beginning of a string. */
function stringBytes(file: FileWindow, maxBytes: number, what: () => string): number {
  const low = file.uint32();
  const high = file.uint32();
  if (high === 0 && low <= maxBytes) return low;
  const length = (BigInt(high) << 32n) | BigInt(low);
  throw new GgufError(`${what()} is ${length} bytes long; at most ${maxBytes} are allowed`);
}

function checkBool(byte: number, key: string): number {
  if (byte > 1) throw new GgufError(`the key ${key} has ${byte} for a boolean`);
  return byte;
}

function alignmentOf(metadata: Metadata): number {
  const alignment = metadata.optionalUint32('general.alignment') ?? defaultAlignmentBytes;
  const isPowerOfTwo = alignment > 0 && (alignment & (alignment - 1)) === 0;
  if (!isPowerOfTwo || alignment > limits.alignmentBytes)
    throw new GgufError(
      `general.alignment is ${alignment}; it has to be a power of two up to ${limits.alignmentBytes}`,
    );
  return alignment;
}

/** Weights of a tensor are stored in blocks of this many elements and bytes. */
interface TensorLayout {
  readonly blockElements: number;
  readonly blockBytes: number;
}

/** Layouts by type tag. The gateway needs only sizes; the runner knows which types it can compute with. */
export const tensorLayouts: ReadonlyMap<number, TensorLayout> = new Map([
  [0, { blockElements: 1, blockBytes: 4 }], // F32
  [1, { blockElements: 1, blockBytes: 2 }], // F16
  [2, { blockElements: 32, blockBytes: 18 }], // Q4_0
  [3, { blockElements: 32, blockBytes: 20 }], // Q4_1
  [6, { blockElements: 32, blockBytes: 22 }], // Q5_0
  [7, { blockElements: 32, blockBytes: 24 }], // Q5_1
  [8, { blockElements: 32, blockBytes: 34 }], // Q8_0
  [9, { blockElements: 32, blockBytes: 36 }], // Q8_1
  [10, { blockElements: 256, blockBytes: 84 }], // Q2_K
  [11, { blockElements: 256, blockBytes: 110 }], // Q3_K
  [12, { blockElements: 256, blockBytes: 144 }], // Q4_K
  [13, { blockElements: 256, blockBytes: 176 }], // Q5_K
  [14, { blockElements: 256, blockBytes: 210 }], // Q6_K
  [15, { blockElements: 256, blockBytes: 292 }], // Q8_K
  [20, { blockElements: 32, blockBytes: 18 }], // IQ4_NL
  [23, { blockElements: 256, blockBytes: 136 }], // IQ4_XS
  [24, { blockElements: 1, blockBytes: 1 }], // I8
  [25, { blockElements: 1, blockBytes: 2 }], // I16
  [26, { blockElements: 1, blockBytes: 4 }], // I32
  [27, { blockElements: 1, blockBytes: 8 }], // I64
  [28, { blockElements: 1, blockBytes: 8 }], // F64
  [30, { blockElements: 1, blockBytes: 2 }], // BF16
  [39, { blockElements: 32, blockBytes: 17 }], // MXFP4
]);

interface TensorRange {
  readonly name: string;
  /** Offset from the start of the tensor data. */
  readonly offset: bigint;
  /** 0 for a type whose layout is not known. */
  readonly bytes: bigint;
}

function checkTensors(file: FileWindow, numTensors: number, alignment: number, fileBytes: number): void {
  const names = new Set<string>();
  const ranges: TensorRange[] = [];
  for (let i = 0; i < numTensors; i++) {
    const range = readTensor(file, i);
    if (names.has(range.name)) throw new GgufError(`the tensor ${range.name} appears twice`);
    names.add(range.name);
    if (range.offset % BigInt(alignment) !== 0n)
      throw new GgufError(
        `the tensor ${range.name} is at offset ${range.offset}, not a multiple of ${alignment}`,
      );
    ranges.push(range);
  }
  const dataStart = BigInt(Math.ceil(file.position / alignment) * alignment);
  for (const { name, offset, bytes } of ranges) {
    const end = dataStart + offset + bytes;
    if (end > BigInt(fileBytes))
      throw new GgufError(
        `it is ${fileBytes} bytes long, but its tensor ${name} ends at ${end}: it is truncated`,
      );
  }
}

function readTensor(file: FileWindow, index: number): TensorRange {
  const name = readString(file, limits.tensorNameBytes, `the name of tensor ${index}`);
  if (typeof name !== 'string') throw new GgufError(`the name of tensor ${index} is not UTF-8`);
  const numDimensions = file.uint32();
  if (numDimensions < 1 || numDimensions > limits.dimensions)
    throw new GgufError(
      `the tensor ${name} has ${numDimensions} dimensions; 1 to ${limits.dimensions} are supported`,
    );
  // The product of four 64-bit numbers fits only a bigint.
  const dimensions = Array.from({ length: numDimensions }, () => file.uint64());
  const layout = tensorLayouts.get(file.uint32());
  const offset = file.uint64();
  if (layout === undefined) return { name, offset, bytes: 0n };

  const [rowElements = 0n] = dimensions;
  if (rowElements % BigInt(layout.blockElements) !== 0n)
    throw new GgufError(
      `the tensor ${name} has rows of ${rowElements}, not a multiple of ${layout.blockElements}`,
    );
  const elements = dimensions.reduce((product, dimension) => product * dimension, 1n);
  if (elements === 0n) throw new GgufError(`the tensor ${name} has no elements`);
  return { name, offset, bytes: (elements / BigInt(layout.blockElements)) * BigInt(layout.blockBytes) };
}

function count(value: bigint, max: number, what: string): number {
  if (value > BigInt(max)) throw new GgufError(`it claims ${value} ${what}; at most ${max} are allowed`);
  return Number(value);
}

function tooShort(key: string, length: number, file: FileWindow): EndOfFileError {
  return new EndOfFileError(
    `the key ${key} claims ${length} elements, but only ${file.remainingBytes} bytes of the file are left`,
  );
}
