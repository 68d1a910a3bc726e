import { isUtf8 } from 'node:buffer';
import { Packr, Unpackr } from 'msgpackr/pack';
import { bodyBounds } from '../json/json-parser.ts';
import { invalidBody } from './json.ts';

// Not 'msgpackr': its main module loads a native add-on, and a hostile body could crash the whole gateway through that.

/**
 * MessagePack, limited to what JSON can express: no extensions, no records. Integers beyond 2^53 are bigint both ways.
 * The library recurses and reserves memory by the lengths that a message claims, so each message is walked before it is
 * unpacked.
 */

export const MSGPACK_TYPE = 'application/x-msgpack';

const packr = new Packr({ useRecords: false, variableMapSize: true });
// 'auto' makes a bigint only if a number would round. The library's types do not have it.
const unpackr = new Unpackr({ useRecords: false, mapsAsObjects: true, int64AsType: 'auto' as 'bigint' });

/** Packs one object. Objects delimit themselves, so a stream is just one after the other. */
export function packMsgpack(value: object): Uint8Array {
  return packr.pack(value);
}

/** Unpacks the value. Throws a 400 that says what is wrong with the bytes. */
export function unpackMsgpack(bytes: Uint8Array): unknown {
  const fault = msgpackFault(bytes);
  if (fault !== undefined)
    throw invalidBody('msgpack', `The body is not a MessagePack value this endpoint reads: ${fault}.`);
  return unpackr.unpack(bytes);
}

/** Says what is wrong with the bytes; undefined if they are exactly one value of the kinds that JSON has, or binary. */
export function msgpackFault(bytes: Uint8Array): string | undefined {
  const walker = new Walker(bytes);
  try {
    walker.value(0);
    walker.end();
    return undefined;
  } catch (error) {
    if (error instanceof Fault) return error.message;
    throw error;
  }
}

class Fault extends Error {}

/** Steps over one value without keeping any of it. Each item takes at least a byte of input, so the walk ends. */
class Walker {
  readonly #bytes: Uint8Array;
  readonly #view: DataView;
  #at = 0;
  #numMembers = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  end(): void {
    const left = this.#bytes.length - this.#at;
    if (left > 0) throw new Fault(`${left} bytes follow the value`);
  }

  value(depth: number): void {
    const byte = this.#unsigned(1);
    if (byte <= 0x7f || byte >= 0xe0) return; // small integers
    if (byte <= 0x8f) this.#map(byte & 0x0f, depth);
    else if (byte <= 0x9f) this.#array(byte & 0x0f, depth);
    else if (byte <= 0xbf) this.#string(byte & 0x1f);
    else this.#long(byte, depth);
  }

  /** Steps over a value whose length or size is not in its first byte. */
  #long(byte: number, depth: number): void {
    if (byte === 0xc0 || byte === 0xc2 || byte === 0xc3) return; // nil, false, true
    if (byte === 0xc1) throw new Fault('byte 0xc1 is not allowed');
    if (byte >= 0xc4 && byte <= 0xc6)
      this.#skip(this.#unsigned(2 ** (byte - 0xc4))); // bin 8, 16, 32
    else if (byte >= 0xca && byte <= 0xcb)
      this.#skip(4 * 2 ** (byte - 0xca)); // float 32, 64
    else if (byte >= 0xcc && byte <= 0xcf)
      this.#skip(2 ** (byte - 0xcc)); // uint 8, 16, 32, 64
    else if (byte >= 0xd0 && byte <= 0xd3)
      this.#skip(2 ** (byte - 0xd0)); // int 8, 16, 32, 64
    else if (byte >= 0xd9 && byte <= 0xdb) this.#string(this.#unsigned(2 ** (byte - 0xd9)));
    else if (byte >= 0xdc && byte <= 0xdd) this.#array(this.#unsigned(2 * 2 ** (byte - 0xdc)), depth);
    else if (byte >= 0xde && byte <= 0xdf) this.#map(this.#unsigned(2 * 2 ** (byte - 0xde)), depth);
    else throw new Fault('it has an extension type, which is not supported');
  }

  #map(count: number, depth: number): void {
    this.#enter(depth);
    this.#numMembers += 1 + count;
    if (this.#numMembers > bodyBounds.members) {
      throw new Fault(`it has more than ${bodyBounds.members} maps and members`);
    }
    if (count > bodyBounds.objectMembers)
      throw new Fault(`it has a map of ${count} members; at most ${bodyBounds.objectMembers} are allowed`);
    for (let i = 0; i < count; i++) {
      this.#key();
      this.value(depth + 1);
    }
  }

  #array(count: number, depth: number): void {
    this.#enter(depth);
    for (let i = 0; i < count; i++) this.value(depth + 1);
  }

  #enter(depth: number): void {
    if (depth >= bodyBounds.depth)
      throw new Fault(`it nests deeper than ${bodyBounds.depth} maps and arrays`);
  }

  #key(): void {
    const byte = this.#bytes[this.#at] ?? 0xa0;
    const isString = (byte >= 0xa0 && byte <= 0xbf) || (byte >= 0xd9 && byte <= 0xdb);
    if (!isString) throw new Fault('a map has a key that is not a string');
    this.value(0);
  }

  #string(length: number): void {
    const start = this.#at;
    this.#skip(length);
    if (!isUtf8(this.#bytes.subarray(start, this.#at))) throw new Fault('a string is not UTF-8');
  }

  #unsigned(length: number): number {
    const at = this.#at;
    this.#skip(length);
    if (length === 1) return this.#view.getUint8(at);
    return length === 2 ? this.#view.getUint16(at) : this.#view.getUint32(at);
  }

  #skip(length: number): void {
    if (length > this.#bytes.length - this.#at) throw new Fault('it ends in the middle of a value');
    this.#at += length;
  }
}
