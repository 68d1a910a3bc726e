import { readFileSync } from 'node:fs';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import {
  encodeFrame,
  FrameDecoder,
  maxBytesFromRunner,
  maxBytesToRunner,
  ProtocolError,
} from '../../../../gateway/runner/protocol/frame.ts';
import { decodeFromRunner } from '../../../../gateway/runner/protocol/from-runner.ts';

interface Vector {
  readonly name: string;
  readonly direction: 'to_runner' | 'from_runner';
  readonly hex: string;
  readonly frames: readonly string[];
  readonly messages: readonly string[];
  readonly error: string | null;
}

const vectors: readonly Vector[] = JSON.parse(
  readFileSync(new URL('../../../golden/frames.json', import.meta.url), 'utf8'),
);

/** The frames and the first error. Messages are decoded too if the gateway reads this direction. */
function decode(vector: Vector, cuts: readonly number[]): Pick<Vector, 'frames' | 'messages' | 'error'> {
  const bytes = Buffer.from(vector.hex, 'hex');
  const frames: string[] = [];
  const messages: string[] = [];
  const isOurs = vector.direction === 'from_runner';
  const decoder = new FrameDecoder(isOurs ? maxBytesFromRunner : maxBytesToRunner, (message) => {
    frames.push(Buffer.from(message).toString('hex'));
    if (isOurs) messages.push(decodeFromRunner(message).type);
  });
  try {
    const edges = [0, ...cuts, bytes.length];
    for (let index = 1; index < edges.length; index += 1) {
      // A copy that is overwritten afterwards, to find a decoder that keeps a view of an old chunk.
      const chunk = Uint8Array.from(bytes.subarray(edges[index - 1], edges[index]));
      decoder.push(chunk);
      chunk.fill(0xee);
    }
    decoder.end();
  } catch (error) {
    if (!(error instanceof ProtocolError)) throw error;
    return { frames, messages, error: error.kind };
  }
  return { frames, messages, error: null };
}

/** What the vector expects, without what only the other side's decoder of messages can see. */
function expected(vector: Vector): Pick<Vector, 'frames' | 'messages' | 'error'> {
  const { frames, messages, error } = vector;
  if (vector.direction === 'from_runner') return { frames, messages, error };
  const isAboutMessages = error === 'garbage' || error === 'empty';
  return { frames, messages: [], error: isAboutMessages ? null : error };
}

const frames = suite('frames');

frames('there are vectors for both directions', () => {
  assert.ok(vectors.length > 40);
  assert.equal(new Set(vectors.map((vector) => vector.direction)).size, 2);
});

for (const vector of vectors) {
  frames(vector.name, () => {
    const want = expected(vector);
    const numBytes = vector.hex.length / 2;
    assert.equal(decode(vector, []), want, 'in one chunk');
    const everyByte = Array.from({ length: Math.max(0, numBytes - 1) }, (_, index) => index + 1);
    assert.equal(decode(vector, everyByte), want, 'byte by byte');
    for (const cut of everyByte) assert.equal(decode(vector, [cut]), want, `cut at ${cut}`);
  });
}

frames('a frame goes through encoder and decoder at every length of the length', () => {
  for (const numBytes of [0, 1, 127, 128, 16_383, 16_384, maxBytesFromRunner]) {
    const message = new Uint8Array(numBytes).fill(7);
    const seen: Uint8Array[] = [];
    const decoder = new FrameDecoder(maxBytesFromRunner, (bytes) => seen.push(Uint8Array.from(bytes)));
    decoder.push(encodeFrame(message, maxBytesFromRunner));
    decoder.end();
    assert.equal(seen, [message]);
  }
});

frames('a message that lies in one chunk is not copied', () => {
  const chunk = encodeFrame(new Uint8Array(10), 100);
  let seen: Uint8Array | undefined;
  new FrameDecoder(100, (bytes) => {
    seen = bytes;
  }).push(chunk);
  assert.is(seen?.buffer, chunk.buffer);
});

frames('a message over the limit is not encoded', () => {
  assert.throws(() => encodeFrame(new Uint8Array(11), 10), /11 bytes does not fit into a frame of 10/);
});

frames.run();
