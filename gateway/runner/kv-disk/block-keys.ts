/**
 * The keys by which the file knows blocks. A key stands for all that decides the bytes of a block: what the cache is of, the salt, and
 * all ids from the beginning of the text to the end of the block. Keys are SHA-256, so equal keys mean equal texts.
 */
import { createHash } from 'node:crypto';

/** 32 bytes, each a character. */
export type BlockKey = string;

/** The key before the first block of a text. */
export function keyBeforeFirst(contents: string, salt: Uint8Array): BlockKey {
  const lengths = Buffer.alloc(8);
  lengths.writeUInt32LE(contents.length, 0);
  lengths.writeUInt32LE(salt.length, 4);
  return createHash('sha256')
    .update('text')
    .update(lengths)
    .update(contents, 'latin1')
    .update(salt)
    .digest()
    .toString('latin1');
}

/** The key of the block of the first group with these ids after that one. */
export function keyAfter(previous: BlockKey, ids: Uint8Array): BlockKey {
  return createHash('sha256')
    .update('block')
    .update(previous, 'latin1')
    .update(ids)
    .digest()
    .toString('latin1');
}

/** The key of the block of another group with the same content as this one of the first group, which is its own. */
export function keyBeside(first: BlockKey, group: number): BlockKey {
  if (group === 0) return first;
  return createHash('sha256').update(`group ${group}`).update(first, 'latin1').digest().toString('latin1');
}

/** The number of the content up to the end of a block, for the index of a cache; never 0. */
export function contentOf(key: BlockKey): bigint {
  return Buffer.from(key, 'latin1').readBigUInt64LE(0) || 1n;
}
