import { closeSync, openSync, readFileSync } from 'node:fs';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { readGguf, tensorLayouts } from '../../../gateway/models/gguf.ts';
import { errorOf } from '../../fixtures/errors.ts';
import {
  ggufString,
  u32,
  u64,
  type WriterTensor,
  type WriterValue,
  writeGguf,
} from '../../fixtures/gguf-writer.ts';
import { strings } from '../../fixtures/packed-strings.ts';
import { Random } from '../../fixtures/random.ts';
import { temporaryFolder } from '../../fixtures/temporary-folder.ts';

const test = suite('gguf');
const folder = temporaryFolder();
const tensor: WriterTensor = { name: 'w', type: 0, dimensions: [4, 2], data: new Uint8Array(32) };

function read(bytes: Uint8Array) {
  const fd = openSync(folder.write('file.gguf', bytes), 'r');
  try {
    return readGguf(fd, bytes.length);
  } finally {
    closeSync(fd);
  }
}

function readMetadata(...metadata: (readonly [string, WriterValue])[]) {
  return read(writeGguf({ metadata }));
}

async function fault(bytes: Uint8Array): Promise<string> {
  const error = await errorOf(() => read(bytes));
  assert.ok(
    ['GgufError', 'EndOfFileError', 'MetadataError'].includes(error.name),
    `${error.name}: ${error.stack}`,
  );
  return error.message;
}

test('reads each type of value', () => {
  const metadata = readMetadata(
    ['u8', { type: 'uint8', value: 255 }],
    ['i8', { type: 'int8', value: -128 }],
    ['u16', { type: 'uint16', value: 65_535 }],
    ['i16', { type: 'int16', value: -32_768 }],
    ['u32', { type: 'uint32', value: 4_294_967_295 }],
    ['i32', { type: 'int32', value: -2_147_483_648 }],
    ['f32', { type: 'float32', value: 0.5 }],
    ['u64', { type: 'uint64', value: 18_446_744_073_709_551_615n }],
    ['i64', { type: 'int64', value: -9_223_372_036_854_775_808n }],
    ['f64', { type: 'float64', value: 1e300 }],
    ['yes', { type: 'bool', value: true }],
    ['text', { type: 'string', value: 'héllo' }],
  );
  assert.is(metadata.get('u8')?.value, 255);
  assert.is(metadata.get('i8')?.value, -128);
  assert.is(metadata.get('u16')?.value, 65_535);
  assert.is(metadata.get('i16')?.value, -32_768);
  assert.is(metadata.uint32('u32'), 4_294_967_295);
  assert.is(metadata.get('i32')?.value, -2_147_483_648);
  assert.is(metadata.get('f32')?.value, 0.5);
  assert.is(metadata.get('u64')?.value, 18_446_744_073_709_551_615n);
  assert.is(metadata.get('i64')?.value, -9_223_372_036_854_775_808n);
  assert.is(metadata.get('f64')?.value, 1e300);
  assert.is(metadata.optionalBool('yes'), true);
  assert.is(metadata.string('text'), 'héllo');
});

test('reads arrays of numbers into typed arrays, of strings and of booleans', () => {
  const metadata = readMetadata(
    ['pad', { type: 'uint8', value: 1 }], // so that the arrays are not aligned in the file
    ['i32', { type: 'array', of: 'int32', value: [1, -2] }],
    ['f32', { type: 'array', of: 'float32', value: [0.25] }],
    ['u64', { type: 'array', of: 'uint64', value: [1n] }],
    ['bools', { type: 'array', of: 'bool', value: [true, false] }],
    ['texts', { type: 'array', of: 'string', value: ['a', '', 'é'] }],
    ['none', { type: 'array', of: 'string', value: [] }],
  );
  assert.equal(metadata.optionalInt32Array('i32'), Int32Array.of(1, -2));
  assert.equal(metadata.get('f32')?.value, Float32Array.of(0.25));
  assert.equal(metadata.get('u64')?.value, BigUint64Array.of(1n));
  assert.equal(metadata.get('bools')?.value, Uint8Array.of(1, 0));
  assert.equal(strings(metadata.texts('texts')), ['a', '', 'é']);
  assert.equal(strings(metadata.texts('none')), []);
});

test('keeps a byte order mark, a real U+FFFD, and bytes that are not UTF-8', async () => {
  const invalid = Uint8Array.of(0x61, 0xff);
  const metadata = readMetadata(
    ['bom', { type: 'string', value: '\uFEFF' }],
    ['replacement', { type: 'string', value: 'a\uFFFD' }],
    ['invalid', { type: 'string', value: invalid }],
    ['texts', { type: 'array', of: 'string', value: ['ok', invalid] }],
  );
  assert.is(metadata.string('bom'), '\uFEFF');
  assert.is(metadata.string('replacement'), 'a\uFFFD');
  assert.equal(metadata.get('invalid')?.value, invalid);
  assert.match((await errorOf(() => metadata.string('invalid'))).message, 'invalid is not UTF-8');
  assert.match((await errorOf(() => strings(metadata.texts('texts')))).message, 'texts[1] is not UTF-8');
});

test('reads version 2, and values longer than its window', () => {
  const long = 'x'.repeat(3 * 2 ** 20);
  const many = Array.from({ length: 200_000 }, (_, i) => `token ${i}`);
  const metadata = read(
    writeGguf({
      version: 2,
      metadata: [
        ['long', { type: 'string', value: long }],
        ['many', { type: 'array', of: 'string', value: many }],
      ],
    }),
  );
  assert.ok(metadata.string('long') === long);
  assert.equal(strings(metadata.texts('many')), many);
});

test('a key of another type is an error that names the key and both types', async () => {
  const metadata = readMetadata(
    ['n', { type: 'int32', value: 1 }],
    ['types', { type: 'array', of: 'int8', value: [1] }],
  );
  assert.is(
    (await errorOf(() => metadata.uint32('n'))).message,
    'the key n has type int32, but it has to be uint32',
  );
  assert.is(
    (await errorOf(() => metadata.optionalInt32Array('types'))).message,
    'the key types has type array of int8, but it has to be array of int32',
  );
  assert.is((await errorOf(() => metadata.string('absent'))).message, 'the key absent is missing');
});

test('a name such as __proto__ is a key like any other', () => {
  assert.is(readMetadata(['__proto__', { type: 'string', value: 'x' }]).string('__proto__'), 'x');
});

test('refuses other formats, other versions and the other byte order', async () => {
  assert.match(await fault(writeGguf({ magic: 'GGML' })), 'letters GGUF');
  assert.match(await fault(new Uint8Array(0)), 'letters GGUF');
  assert.match(await fault(writeGguf({ version: 1 })), 'version is 1');
  assert.match(await fault(writeGguf({ version: 4 })), 'version is 4');
  assert.match(await fault(writeGguf({ version: 0x0300_0000 })), 'big-endian');
});

test('a file cut short anywhere is refused', async () => {
  const whole = writeGguf({
    metadata: [
      ['text', { type: 'string', value: 'hello' }],
      ['texts', { type: 'array', of: 'string', value: ['a', 'b'] }],
      ['numbers', { type: 'array', of: 'float64', value: [1, 2] }],
    ],
    tensors: [tensor],
  });
  read(whole);
  for (let length = 0; length < whole.length; length++) await fault(whole.subarray(0, length));
});

test('absurd counts and lengths are refused before anything is allocated for them', async () => {
  const huge = 2n ** 63n;
  const raw = (tag: number, ...parts: Buffer[]): WriterValue => ({
    type: 'raw',
    tag,
    value: Buffer.concat(parts),
  });
  assert.match(await fault(writeGguf({ numTensors: huge })), '9223372036854775808 tensors; at most 65536');
  assert.match(await fault(writeGguf({ numEntries: 65_537n })), '65537 metadata entries');
  assert.match(await fault(writeGguf({ numEntries: 1n })), 'the file ends');
  const file = (value: WriterValue) => writeGguf({ metadata: [['k', value]] });
  assert.match(await fault(file(raw(8, u64(huge)))), 'the key k is 9223372036854775808 bytes long');
  assert.match(await fault(file(raw(8, u64(1000n)))), 'the file ends');
  assert.match(await fault(file(raw(9, u32(8), u64(huge)))), '9223372036854775808 elements of k');
  assert.match(await fault(file(raw(9, u32(8), u64(1_000_000n)))), 'claims 1000000 elements');
  assert.match(await fault(file(raw(9, u32(12), u64(1_000_000n)))), 'claims 1000000 elements');
  assert.match(await fault(file(raw(9, u32(7), u64(1_000_000n)))), 'claims 1000000 elements');
  assert.match(await fault(file(raw(9, u32(9), u64(1n), u32(4), u64(1n), u32(1)))), 'array of arrays');
  assert.match(await fault(file(raw(13))), 'type 13, which does not exist');
  assert.match(await fault(file({ type: 'bool', value: 2 })), 'has 2 for a boolean');
  assert.match(await fault(file({ type: 'array', of: 'bool', value: [1, 9] })), 'has 9 for a boolean');
});

test('refuses keys that are duplicate or not UTF-8', async () => {
  const value: WriterValue = { type: 'uint8', value: 1 };
  assert.match(
    await fault(
      writeGguf({
        metadata: [
          ['k', value],
          ['k', value],
        ],
      }),
    ),
    'the key k appears twice',
  );
  const header = [Buffer.from('GGUF'), u32(3), u64(0n), u64(1n)];
  assert.match(
    await fault(Buffer.concat([...header, ggufString(Uint8Array.of(0xff)), u32(0)])),
    'is not UTF-8',
  );
});

test('alignment must be a power of two within bounds, and applies', async () => {
  const aligned = (value: number) =>
    writeGguf({
      metadata: [['general.alignment', { type: 'uint32', value }]],
      tensors: [tensor],
      alignment: 64,
    });
  read(aligned(64));
  for (const value of [0, 3, 48, 131_072])
    assert.match(await fault(aligned(value)), `general.alignment is ${value}`);
  const odd = { ...tensor, offset: 8n, data: new Uint8Array(64) };
  assert.match(await fault(writeGguf({ tensors: [odd] })), 'not a multiple of 32');
});

test('each tensor has to lie inside the file', async () => {
  const file = (changes: Partial<WriterTensor>) => writeGguf({ tensors: [{ ...tensor, ...changes }] });
  read(file({}));
  assert.match(await fault(file({ offset: 2n ** 63n })), 'its tensor w ends at');
  assert.match(await fault(file({ dimensions: [4, 2n ** 40n] })), 'it is truncated');
  // 2^64 elements wrap to 0 in 64 bits.
  assert.match(await fault(file({ dimensions: [2n ** 32n, 2n ** 32n] })), 'it is truncated');
  assert.match(await fault(file({ dimensions: [0, 4] })), 'no elements');
  assert.match(await fault(file({ dimensions: [] })), '0 dimensions');
  assert.match(await fault(file({ dimensions: [1, 1, 1, 1, 1] })), '5 dimensions');
  assert.match(await fault(file({ type: 2, dimensions: [33] })), 'not a multiple of 32');
  assert.match(await fault(writeGguf({ tensors: [tensor, tensor] })), 'the tensor w appears twice');
  assert.match(await fault(file({ name: 'x'.repeat(2000) })), 'name of tensor 0');
});

test('of a tensor of a type it does not know, only the offset is checked', async () => {
  read(writeGguf({ tensors: [{ ...tensor, type: 99, dimensions: [1_000_000] }] }));
  assert.match(
    await fault(writeGguf({ tensors: [{ ...tensor, type: 99, offset: 1n << 40n }] })),
    'truncated',
  );
});

test('any changed byte gives metadata or a format error, never another error', () => {
  const whole = writeGguf({
    metadata: [
      ['text', { type: 'string', value: 'hello' }],
      ['texts', { type: 'array', of: 'string', value: ['a', 'b'] }],
      ['n', { type: 'uint32', value: 7 }],
    ],
    tensors: [tensor],
  });
  const random = new Random();
  for (let run = 0; run < 2_000; run++) {
    const bytes = Buffer.from(whole);
    for (let i = 0; i <= random.below(3); i++) bytes[random.below(bytes.length)] = random.below(256);
    try {
      read(bytes);
    } catch (error) {
      const name = (error as Error).name;
      assert.ok(
        ['GgufError', 'EndOfFileError', 'MetadataError'].includes(name),
        `seed ${random.seed}, run ${run}: ${(error as Error).stack}`,
      );
    }
  }
});

test('blocks of each type that runners read have the size that runners know', () => {
  const source = (name: string) =>
    readFileSync(new URL(`../../../runner/formats/${name}`, import.meta.url), 'utf8');
  const numbers = new Map(
    [...source('tensor_type.h').matchAll(/k(\w+) = (\d+),/g)].map(([, name, number]) => [
      name,
      Number(number),
    ]),
  );
  const rows = [...source('tensor.h').matchAll(/\{TensorType::k(\w+), "\w+", (\d+), (\d+)\}/g)];
  assert.is(rows.length, numbers.size);
  assert.ok(rows.length >= 16);
  for (const [, name, blockElements, blockBytes] of rows) {
    const layout = tensorLayouts.get(numbers.get(name) ?? -1);
    assert.equal(
      layout,
      { blockElements: Number(blockElements), blockBytes: Number(blockBytes) },
      `${name} is ${JSON.stringify(layout)}`,
    );
  }
});

test.run();
