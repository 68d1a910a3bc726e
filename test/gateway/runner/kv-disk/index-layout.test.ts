/** The bytes of an index, as the runner's code writes and reads them: test/runner/engine/kv_index_bytes_test.cc has the same file. */
import { readFileSync, writeFileSync } from 'node:fs';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import {
  blockOffset,
  entryOffset,
  headerBytes,
  type IndexEntry,
  type IndexHeader,
  readEntry,
  readHeader,
  writeEntry,
  writeHeader,
} from '../../../../gateway/runner/kv-disk/index-layout.ts';
import { hash64, idBytes } from '../../../fixtures/kv-places.ts';

const test = suite('layout of an index');
const FILE = 'test/golden/kv-index.json';
const MEMORY_BYTES = 2 ** 30;

interface Golden {
  readonly shape: IndexHeader['shape'];
  readonly epoch: string;
  readonly entries: readonly {
    readonly group: number;
    readonly hash: string;
    readonly content: string;
    readonly previousContent: string;
    readonly checksum: string;
    readonly salt: string;
    readonly ids: readonly number[];
  }[];
  /** In hexadecimal digits: the header as far as it is not zeros, and each entry. */
  readonly header: string;
  readonly bytes: readonly string[];
}

const golden = (): Golden => JSON.parse(readFileSync(FILE, 'utf8'));

function headerOf({ shape, epoch }: Golden): IndexHeader {
  return { shape, epoch: BigInt(epoch) };
}

function entryOf({ entries }: Golden, id: number): IndexEntry {
  const { group, hash, content, previousContent, checksum, salt, ids } = entries[
    id
  ] as Golden['entries'][number];
  return {
    group,
    hash: BigInt(hash),
    content: BigInt(content),
    previousContent: BigInt(previousContent),
    checksum: BigInt(checksum),
    salt: Buffer.from(salt),
    ids: Buffer.from(idBytes(ids)),
  };
}

const withoutZeros = (bytes: Buffer): string => bytes.toString('hex').replace(/(00)+$/, '');

if (process.env.RUNNEL_TEST_RECORD !== undefined) {
  const all = golden();
  const { shape, epoch } = headerOf(all);
  const header = withoutZeros(writeHeader({ shape, epoch }, hash64));
  const bytes = all.entries.map((_, id) =>
    writeEntry(entryOf(all, id), id, epoch, shape.blockSize, hash64).toString('hex'),
  );
  writeFileSync(FILE, `${JSON.stringify({ ...all, header, bytes }, null, 2)}\n`);
}

test('the bytes that are written are those that runners read', () => {
  const all = golden();
  const { shape, epoch } = headerOf(all);
  assert.is(withoutZeros(writeHeader({ shape, epoch }, hash64)), all.header);
  for (const [id, hex] of all.bytes.entries())
    assert.is(writeEntry(entryOf(all, id), id, epoch, shape.blockSize, hash64).toString('hex'), hex);
});

test('what runners write is read', () => {
  const all = golden();
  const { shape, epoch } = headerOf(all);
  const page = Buffer.alloc(headerBytes);
  page.write(all.header, 'hex');
  assert.equal(readHeader(page, MEMORY_BYTES, hash64), { shape, epoch });
  for (const [id, hex] of all.bytes.entries()) {
    const read = readEntry(Buffer.from(hex, 'hex'), id, epoch, shape.blockSize, hash64);
    const { salt, ids } = entryOf(all, id);
    assert.equal(read && { ...read, salt: Buffer.from(read.salt), ids: Buffer.from(read.ids) }, {
      ...entryOf(all, id),
      salt: Buffer.from(salt),
      ids: Buffer.from(ids),
    });
  }
});

test('an entry of another block, another epoch or with a flipped bit is absent', () => {
  const all = golden();
  const { shape, epoch } = headerOf(all);
  const read = (bytes: Buffer, id = 0, of = epoch) => readEntry(bytes, id, of, shape.blockSize, hash64);
  const bytes = Buffer.from(all.bytes[0] as string, 'hex');
  assert.ok(read(bytes));
  assert.is(read(bytes, 1), undefined);
  assert.is(read(bytes, 0, epoch + 1n), undefined);
  for (let at = 0; at < bytes.length; at += 1) {
    // No seal covers when the block was used.
    if (at >= 8 && at < 16) continue;
    const damaged = Buffer.from(bytes);
    damaged[at] = (damaged[at] as number) ^ 0x10;
    assert.is(read(damaged), undefined, `byte ${at}`);
  }
});

test('a header with a flipped bit is none', () => {
  const all = golden();
  const page = writeHeader(headerOf(all), hash64);
  for (let at = 0; at < 1072; at += 1) {
    const damaged = Buffer.from(page);
    damaged[at] = (damaged[at] as number) ^ 0x10;
    assert.is(readHeader(damaged, MEMORY_BYTES, hash64), undefined, `byte ${at}`);
  }
});

test('a header of a cache that does not fit into the memory, or that nobody could read at once, is none', () => {
  const { shape, epoch } = headerOf(golden());
  const isRead = (changed: Partial<typeof shape>, memoryBytes = MEMORY_BYTES): boolean =>
    readHeader(writeHeader({ shape: { ...shape, ...changed }, epoch }, hash64), memoryBytes, hash64) !==
    undefined;
  assert.ok(isRead({}));
  assert.ok(isRead({}, 2 ** 21 + 3 * 512));
  assert.not.ok(isRead({}, 2 ** 21 + 3 * 512 - 1));
  assert.not.ok(isRead({ numBlocks: 2 ** 32 - 1, blockBytes: 1 }, Number.MAX_SAFE_INTEGER));
  assert.not.ok(isRead({ numBlocks: 1, blockBytes: 2 ** 40 }, Number.MAX_SAFE_INTEGER));
  assert.not.ok(isRead({ numBlocks: 0 }));
  assert.not.ok(isRead({ blockSize: 4 }));
  assert.not.ok(isRead({ blockSize: 512 }));
});

test('blocks begin at a multiple of 2 MiB behind the last entry', () => {
  const { shape } = headerOf(golden());
  assert.is(blockOffset(shape, 0), 2 ** 21);
  const numBlocks = 2 ** 15;
  assert.ok(blockOffset({ ...shape, numBlocks }, 0) >= entryOffset(shape, numBlocks));
  assert.is(blockOffset({ ...shape, numBlocks }, 0) % 2 ** 21, 0);
});

test.run();
