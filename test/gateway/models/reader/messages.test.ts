import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { PartReceiver, partOf, partsOf } from '../../../../gateway/models/reader/messages.ts';

const test = suite('parts');
const longest = 2 ** 18;

function received(receiver: PartReceiver, message: unknown): { message: unknown; numParts: number } {
  let numParts = 0;
  for (const part of partsOf(message)) {
    numParts++;
    if ('bytes' in part) assert.ok(part.bytes.length <= longest);
    const whole = receiver.take(structuredClone(part));
    if (whole !== undefined) return { message: whole.message, numParts };
  }
  throw new Error(`After ${numParts} parts, the message is not whole.`);
}

test('a message arrives as it was sent, one after another', () => {
  const receiver = new PartReceiver();
  const large = {
    number: 7,
    nothing: undefined,
    list: ['a', { b: 1n }],
    empty: new Uint8Array(0),
    tables: {
      bytes: Uint8Array.from({ length: 2 * longest + 1 }, (_, i) => i % 251),
      none: new Int32Array(0),
      ids: Int32Array.from({ length: 100_000 }, (_, i) => -i),
      starts: Uint32Array.of(0, 2 ** 32 - 1),
    },
  };
  for (const message of [large, { number: 8 }, { ids: new Uint32Array(0) }, large])
    assert.equal(received(receiver, message).message, message);
  assert.is(received(receiver, large).numParts, 1 + 3 + 2 + 1);
  assert.equal(receiver.take(partOf('whole')), { message: 'whole' });
});

test('a part of an array is sent as what it shows', () => {
  const ids = Uint32Array.from({ length: 10 }, (_, i) => i).subarray(3, 5);
  assert.equal(received(new PartReceiver(), { ids }).message, { ids: Uint32Array.of(3, 4) });
});

test('an array of another kind is refused by name', () => {
  assert.throws(() => [...partsOf({ values: new Float32Array(1) })], 'the kind Float32Array');
});

test.run();
