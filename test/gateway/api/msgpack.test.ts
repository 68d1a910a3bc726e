import { Packr } from 'msgpackr/pack';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { msgpackFault, packMsgpack, unpackMsgpack } from '../../../gateway/api/msgpack.ts';
import { ApiError } from '../../../gateway/errors/api-error.ts';
import { Random } from '../../fixtures/random.ts';

const test = suite('msgpack');

const of = (...bytes: number[]): Uint8Array => Uint8Array.of(...bytes);
/** Nested arrays. */
const nested = (depth: number): Uint8Array => of(...new Array(depth).fill(0x91), 0xc0);

test('values come back as they were, 64-bit integers without loss', () => {
  const value = {
    seed: 2n ** 64n - 1n,
    negative: -(2n ** 63n),
    small: 5,
    float: 0.1,
    text: 'é👋',
    none: null,
    yes: true,
    list: [1, [2, { three: 3 }]],
    long: 'x'.repeat(70_000),
    many: Array.from({ length: 70_000 }, (_, i) => i),
  };
  assert.equal(unpackMsgpack(packMsgpack(value)), value);
});

test('a small integer in 64 bits is a number like any other', () => {
  assert.is(unpackMsgpack(of(0xcf, 0, 0, 0, 0, 0, 0, 0, 5)), 5);
  assert.is(unpackMsgpack(of(0xd3, 255, 255, 255, 255, 255, 255, 255, 251)), -5);
});

test('hostile bytes are refused before anything is reserved for them', () => {
  const cases: [Uint8Array, RegExp][] = [
    [of(), /ends in the middle/],
    [of(0xc1), /0xc1/],
    [of(0xa5, 0x61), /ends in the middle/],
    [of(0xdd, 255, 255, 255, 255), /ends in the middle/],
    [of(0xdf, 255, 255, 255, 255), /more than 32768 maps and members/],
    [of(0xdf, 0, 0, 127, 0), /a map of 32512 members; at most 4096 are allowed/],
    [of(0xdf, 0, 0, 16, 0), /ends in the middle/],
    [of(0xc6, 255, 255, 255, 255), /ends in the middle/],
    [of(0xdb, 255, 255, 255, 255), /ends in the middle/],
    [of(0xc0, 0xc0), /1 bytes follow/],
    [of(0xa1, 0xff), /not UTF-8/],
    [of(0x81, 0x01, 0x02), /key that is not a string/],
    [of(0x81, 0xc4, 0x01, 0x61, 0x02), /key that is not a string/],
    [of(0xd4, 0x72, 0x40), /extension/],
    [of(0xc7, 1, 1, 1), /extension/],
    [of(0xd8), /extension/],
    [nested(65), /deeper than 64/],
    [new Packr({ useRecords: true }).pack({ a: 1 }), /extension/],
  ];
  for (const [bytes, fault] of cases) {
    assert.match(msgpackFault(bytes) ?? 'nothing', fault, Buffer.from(bytes).toString('hex').slice(0, 40));
    assert.throws(
      () => unpackMsgpack(bytes),
      (error: unknown) =>
        error instanceof ApiError && error.status === 400 && error.fieldErrors[0]?.constraint === 'msgpack',
    );
  }
  assert.is(msgpackFault(nested(64)), undefined);
});

test('a name that means something to JavaScript means nothing here', () => {
  const value = unpackMsgpack(of(0x81, 0xa9, ...Buffer.from('__proto__'), 0x81, 0xa1, 0x61, 0x01)) as object;
  assert.is(Object.getPrototypeOf(value), Object.prototype);
  assert.is((value as { a?: number }).a, undefined);
});

test('no native code reads what a client sent', () => {
  const { sharedObjects } = process.report.getReport() as unknown as { sharedObjects: string[] };
  assert.equal(
    sharedObjects.filter((path) => path.includes('msgpackr')),
    [],
  );
});

test('random bytes are a value or a fault, never anything else', () => {
  const random = new Random();
  for (let round = 0; round < 5000; round++) {
    const bytes = Uint8Array.from({ length: 1 + random.below(24) }, () => random.below(256));
    try {
      unpackMsgpack(bytes);
    } catch (error) {
      assert.instance(error, ApiError, `seed ${random.seed}: ${Buffer.from(bytes).toString('hex')}`);
    }
  }
});

test.run();
