import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { FrameDecoder, maxBytesToRunner } from '../../../../gateway/runner/protocol/frame.ts';
import { runner } from '../../../../gateway/runner/protocol/proto/runner.js';
import {
  maxSpellingBytes,
  maxVocabularyBytes,
  vocabularyFrames,
} from '../../../../gateway/runner/protocol/vocabulary-frames.ts';
import type { VocabularyFrames } from '../../../../gateway/runner/runner.ts';
import { errorOf } from '../../../fixtures/errors.ts';

const test = suite('vocabulary frames');

/** Decodes the frames as a runner does. */
function read({ numTokens, frames }: VocabularyFrames): { spellings: Buffer[]; numBytes: number } {
  const spellings: Buffer[] = [];
  const sizes = new Set<number>();
  const decoder = new FrameDecoder(maxBytesToRunner, (bytes) => {
    const { vocabulary } = runner.v1.ToRunner.decode(bytes);
    assert.is(vocabulary?.numTokens, numTokens);
    assert.is(vocabulary?.firstId ?? 0, spellings.length, 'they come in order and without gaps');
    sizes.add(vocabulary?.numBytes ?? 0);
    let at = 0;
    assert.ok((vocabulary?.lengths ?? []).length > 0);
    for (const length of vocabulary?.lengths ?? []) {
      spellings.push(Buffer.from((vocabulary?.spellings ?? new Uint8Array()).subarray(at, at + length)));
      at += length;
    }
    assert.is(at, vocabulary?.spellings?.length ?? 0);
  });
  for (const frame of frames) decoder.push(frame);
  assert.is(sizes.size, 1, 'each says the same size');
  return { spellings, numBytes: [...sizes][0] as number };
}

test('each token arrives with its bytes, in frames of a bounded size', async () => {
  const numTokens = 20_000;
  const expected = Array.from({ length: numTokens }, (_, id) =>
    Buffer.from([id & 255, ...Array(id % 90).fill(7)]),
  );
  expected[5] = Buffer.alloc(0);
  const frames = await vocabularyFrames(numTokens, (id) => expected[id] as Buffer);
  const { spellings, numBytes } = read(frames);
  assert.equal(spellings, expected);
  assert.is(numBytes, Buffer.concat(expected).length);
  assert.ok(frames.frames.length > 3);
  for (const frame of frames.frames) assert.ok(frame.length < 2 ** 19, `a frame of ${frame.length} bytes`);
});

test('a token that is too long has no spelling', async () => {
  const spelled = [
    Buffer.alloc(maxSpellingBytes, 97),
    Buffer.alloc(maxSpellingBytes + 1, 97),
    Buffer.from('b'),
  ];
  const { spellings } = read(await vocabularyFrames(3, (id) => spelled[id] as Buffer));
  assert.equal(
    spellings.map(({ length }) => length),
    [maxSpellingBytes, 0, 1],
  );
});

test('a vocabulary that a runner does not take is refused', async () => {
  const long = Buffer.alloc(maxSpellingBytes);
  const numTokens = maxVocabularyBytes / maxSpellingBytes;
  assert.is((await vocabularyFrames(numTokens, () => long)).numTokens, numTokens);
  assert.match(
    (await errorOf(() => vocabularyFrames(numTokens + 1, () => long))).message,
    /spelled with 33558528 bytes; a runner takes 33554432/,
  );
});

test.run();
