/** Blocks in a file: found again by a later process, the oldest unused ones left out, and never the bytes of another block. */
import {
  closeSync,
  fstatSync,
  mkdirSync,
  openSync,
  readFileSync,
  readSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import {
  type Block,
  BlockFile,
  KvDiskError,
  requireUsable,
} from '../../../../gateway/runner/kv-disk/block-file.ts';
import { partsOf, recordBytes } from '../../../../gateway/runner/kv-disk/file-records.ts';
import { Random } from '../../../fixtures/random.ts';
import { temporaryFolder } from '../../../fixtures/temporary-folder.ts';

const test = suite('block file');
const folder = temporaryFolder();
const SECRET = Buffer.alloc(32, 7);
const FILE_BYTES = 2 ** 20;
const { dataBegin, dataBytes, numRecords } = partsOf(FILE_BYTES);
let numFiles = 0;

const newPath = (): string => join(folder.path, `blocks-${++numFiles}`);
const keyOf = (number: number): string => String.fromCharCode(number % 256, number >> 8).padEnd(32, 'k');
const open = (path: string, fileBytes = FILE_BYTES, secret = SECRET) =>
  BlockFile.open(path, fileBytes, secret);

function blockOf(number: number, numBytes = 60_000): Block {
  const bytes = Buffer.alloc(numBytes, number & 0xff);
  bytes.writeUInt32LE(number, 0);
  return { hash: BigInt(number), checksum: BigInt(number) << 32n, bytes };
}

/** Writes these blocks in order. */
function write(file: BlockFile, numbers: readonly number[], origin = 1): void {
  for (const number of numbers) file.write(keyOf(number), blockOf(number), origin);
}

/** Which of these blocks are there, each as it was written. */
function present(file: BlockFile, numbers: readonly number[]): number[] {
  return numbers.filter((number) => {
    const block = file.read(keyOf(number));
    if (block !== undefined) assert.equal(block, blockOf(number, block.bytes.length), `block ${number}`);
    return block !== undefined;
  });
}

const upTo = (count: number, first = 1): number[] =>
  Array.from({ length: count }, (_, index) => first + index);

async function withFile(use: (file: BlockFile, path: string) => void | Promise<void>): Promise<void> {
  const path = newPath();
  const file = await open(path);
  await use(file, path);
  file.close();
}

test('what one process writes the next one reads', async () => {
  const path = newPath();
  const first = await open(path);
  write(first, upTo(5));
  assert.is(first.numBlocks, 5);
  assert.is(first.usedBytes, 5 * 60_000);
  first.close();
  const second = await open(path);
  assert.equal(present(second, upTo(6)), upTo(5));
  assert.is(second.numBlocks, 5);
  second.close();
});

test('the file takes all of its space at once', async () => {
  await withFile((_, path) => {
    const fd = openSync(path, 'r');
    const { size, blocks, mode } = fstatSync(fd);
    closeSync(fd);
    assert.is(size, FILE_BYTES);
    assert.ok(blocks * 512 >= FILE_BYTES, 'on the disk');
    assert.is(mode & 0o777, 0o600);
  });
});

test('nothing of a block lies in the file as it is', async () => {
  await withFile((file, path) => {
    const bytes = Buffer.alloc(4096, 'these are the values of the keys');
    file.write(keyOf(1), { ...blockOf(1), bytes }, 1);
    assert.not.ok(readFileSync(path).includes('these are the values'));
  });
});

const NUM_FITTING = Math.floor(dataBytes / 61_440);

test('a new block takes the place of the oldest ones, and blocks that are used stay', async () => {
  await withFile((file) => {
    write(file, upTo(NUM_FITTING));
    assert.equal(present(file, [2]), [2], 'this one goes to the front');
    write(file, upTo(2, 100));
    const left = upTo(NUM_FITTING).filter((number) => file.has(keyOf(number)));
    assert.ok(left.includes(2));
    assert.not.ok(left.includes(1));
    assert.equal(left, [2, ...upTo(left.length - 1, NUM_FITTING - left.length + 2)], 'the oldest have left');
  });
});

test('a block that is larger than the file is not kept', async () => {
  await withFile((file) => {
    file.write(keyOf(1), blockOf(1, dataBytes + 1), 1);
    assert.not.ok(file.has(keyOf(1)));
    file.write(keyOf(2), blockOf(2, dataBytes), 1);
    assert.equal(present(file, [2]), [2]);
  });
});

test('of blocks too small for the records, the newest are kept', async () => {
  const path = newPath();
  const file = await open(path);
  for (const number of upTo(numRecords + 3)) file.write(keyOf(number), blockOf(number, 100), 1);
  assert.equal(present(file, upTo(numRecords + 3)), upTo(numRecords, 4));
  file.close();
  const next = await open(path);
  assert.is(next.numBlocks, numRecords);
  next.close();
});

test('with another secret, or another size, a file begins anew', async () => {
  const path = newPath();
  const first = await open(path);
  write(first, [1]);
  first.close();
  const other = await open(path, FILE_BYTES, Buffer.alloc(32, 8));
  assert.is(other.numBlocks, 0);
  write(other, [2]);
  other.close();
  const again = await open(path);
  assert.is(again.numBlocks, 0, 'nor is anything of the first file there');
  write(again, [3]);
  again.close();
  for (const fileBytes of [FILE_BYTES * 2, FILE_BYTES / 2]) {
    const resized = await open(path, fileBytes);
    assert.is(resized.numBlocks, 0);
    assert.is(readFileSync(path).length, fileBytes);
    resized.close();
  }
});

test('a file that something else has written is refused, and left as it is', async () => {
  const path = folder.write('letter', 'Dear reader');
  assert.throws(
    () => requireUsable(path),
    (error: Error) => error instanceof KvDiskError && error.message.includes(path),
  );
  const refused = await open(path).then(
    () => undefined,
    (error: unknown) => error,
  );
  assert.instance(refused, KvDiskError);
  assert.is(readFileSync(path, 'utf8'), 'Dear reader');
  const inside = join(folder.path, 'a folder');
  mkdirSync(inside);
  assert.throws(() => requireUsable(inside), /cannot be opened|no regular file/);
  assert.throws(() => requireUsable('/dev/null'), /no regular file/);
  assert.throws(() => requireUsable(join(folder.path, 'no', 'such')), /cannot be opened/);
});

test('a death before all of the space was taken is made up for', async () => {
  const path = newPath();
  const file = await open(path);
  write(file, [1]);
  file.close();
  writeFileSync(path, readFileSync(path).subarray(0, 8192));
  const next = await open(path);
  assert.is(readFileSync(path).length, FILE_BYTES);
  assert.equal(present(next, [1]), [], 'its bytes are gone');
  write(next, [2]);
  assert.equal(present(next, [2]), [2]);
  next.close();
});

test('the blocks of one origin are forgotten, for later processes too', async () => {
  const path = newPath();
  const file = await open(path);
  write(file, [1, 2], 1);
  write(file, [3], 2);
  assert.is(file.forget(file.keysFrom(1)), 2);
  assert.equal(present(file, [1, 2, 3]), [3]);
  file.close();
  const next = await open(path);
  assert.equal(present(next, [1, 2, 3]), [3]);
  assert.is(next.forget(next.keysFrom(2)), 0, 'a process knows only its own');
  next.close();
});

test('a flipped bit in blocks or records loses a block and changes none', async () => {
  const random = new Random();
  const path = newPath();
  let file = await open(path);
  write(file, upTo(4));
  file.close();
  const whole = readFileSync(path);
  const records = { first: 4096, count: 4 * recordBytes };
  const blocks = { first: dataBegin, count: 4 * 61_440 };
  let numLost = 0;
  for (let flip = 0; flip < 400; flip += 1) {
    const { first, count } = random.pick([records, blocks]);
    const at = first + random.below(count);
    const fd = openSync(path, 'r+');
    const damaged = Buffer.from([(whole[at] as number) ^ (1 << random.below(8))]);
    writeSync(fd, damaged, 0, 1, at);
    file = await open(path);
    const left = present(file, upTo(4)).length;
    assert.ok(left >= 3, `seed ${random.seed}: byte ${at} loses ${4 - left} blocks`);
    numLost += 4 - left;
    file.close();
    writeSync(fd, whole, at, 1, at);
    closeSync(fd);
  }
  assert.ok(numLost > 100, `seed ${random.seed}: ${numLost} of 400 flips lost a block`);
});

test('whatever is written in any order, across ends at any time, each block is its own or absent', async () => {
  const random = new Random();
  const path = newPath();
  let file = await open(path);
  const newest = new Map<number, number>();
  for (let turn = 0; turn < 1500; turn += 1) {
    const number = 1 + random.below(60);
    const choice = random.below(20);
    if (choice === 0) {
      file.close();
      const before = file.numBlocks;
      file = await open(path);
      assert.ok(
        file.numBlocks >= before,
        `seed ${random.seed}: a later process finds ${file.numBlocks} of ${before}`,
      );
    } else if (choice < 8) {
      const isThere = file.has(keyOf(number));
      const block = file.read(keyOf(number));
      assert.is(block !== undefined, isThere, `seed ${random.seed}, turn ${turn}, block ${number}`);
      if (block !== undefined)
        assert.equal(
          block,
          blockOf(number, newest.get(number)),
          `seed ${random.seed}, turn ${turn}, block ${number}`,
        );
    } else {
      const numBytes = random.pick([1000, 60_000]) + random.below(150_000);
      file.write(keyOf(number), blockOf(number, numBytes), 1);
      newest.set(number, numBytes);
      assert.ok(file.has(keyOf(number)));
    }
    assert.ok(file.usedBytes <= dataBytes, `seed ${random.seed}: ${file.usedBytes} bytes`);
  }
  file.close();
});

test('a record without its block, as after a crash of the machine, is no block', async () => {
  const path = newPath();
  const file = await open(path);
  write(file, [1, 2]);
  file.close();
  const fd = openSync(path, 'r+');
  const before = Buffer.alloc(100);
  readSync(fd, before, 0, 100, dataBegin);
  writeSync(fd, Buffer.alloc(61_440), 0, 61_440, dataBegin);
  closeSync(fd);
  const next = await open(path);
  assert.equal(present(next, [1, 2]), [2]);
  next.close();
});

test.run();
