import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { FrameDecoder, maxBytesFromRunner, ProtocolError } from '../../gateway/runner/protocol/frame.ts';
import { decodeFromRunner } from '../../gateway/runner/protocol/from-runner.ts';
import { liveBytes } from '../fixtures/live-bytes.ts';

/**
 * Frames that a runner in an attacker's hands may send: streams that `fuzz-events` mutates. The same seed gives the same
 * streams. For every frame the codec must give a message or a ProtocolError. `make check` reads a million frames.
 */

const FRAMES = Number(process.env.RUNNEL_TEST_FUZZ_FRAMES ?? 20_000);
const SEED = 1;
/** Buffers on their way, and compiled code. Of a million frames, that is two bytes for each of the second half. */
const MAX_GROWTH_BYTES = 2 ** 20;
const FUZZER = fileURLToPath(new URL('../../build/fuzz-events', import.meta.url));

interface Counts {
  frames: number;
  messages: number;
  refused: number;
}

/** Reads one stream as client.ts does: the first error ends it. */
function readStream(bytes: Uint8Array, counts: Counts): void {
  const decoder = new FrameDecoder(maxBytesFromRunner, (message) => {
    counts.frames += 1;
    decodeFromRunner(message);
    counts.messages += 1;
  });
  const framesBefore = counts.frames;
  try {
    // In two pieces, so that partial frames are read as well. The last byte decides the place of the cut.
    const cut = bytes.length === 0 ? 0 : (bytes.at(-1) ?? 0) % bytes.length;
    decoder.push(bytes.subarray(0, cut));
    decoder.push(bytes.subarray(cut));
    decoder.end();
  } catch (error) {
    if (!(error instanceof ProtocolError)) {
      throw new Error(`Past the codec, from the stream ${Buffer.from(bytes).toString('hex')}: ${error}`);
    }
    counts.refused += 1;
    // A refused length counts as a frame that was read.
    if (counts.frames === framesBefore) counts.frames += 1;
  }
}

/** The streams that the fuzzer writes. Each comes after its length in four bytes. */
async function* streams(numFrames: number): AsyncGenerator<Uint8Array> {
  const args = ['--write', '--seed', `${SEED}`, '--units', `${numFrames}`];
  const fuzzer = spawn(FUZZER, args, { stdio: ['ignore', 'pipe', 'ignore'] });
  const ended = new Promise<number | null>((resolve, reject) => {
    fuzzer.on('error', reject);
    fuzzer.on('close', resolve);
  });
  let rest: Buffer = Buffer.alloc(0);
  for await (const chunk of fuzzer.stdout) {
    rest = rest.length === 0 ? (chunk as Buffer) : Buffer.concat([rest, chunk as Buffer]);
    let position = 0;
    while (rest.length >= position + 4 && rest.length >= position + 4 + rest.readUInt32LE(position)) {
      const end = position + 4 + rest.readUInt32LE(position);
      yield rest.subarray(position + 4, end);
      position = end;
    }
    rest = rest.subarray(position);
  }
  assert.is(await ended, 0, 'the fuzzer ends well');
  assert.is(rest.length, 0, 'and with a whole stream');
}

const test = suite('gateway frames');

test(`${FRAMES} hostile frames give messages or ProtocolErrors, and nothing else`, async () => {
  const counts: Counts = { frames: 0, messages: 0, refused: 0 };
  // In the middle everything that is read only once is loaded.
  let middleBytes: number | undefined;
  // A stream ends at its first error, which comes earlier here than in the fuzzer, since that checks no fields. So the
  // fuzzer is asked for more frames than are read.
  const begin = performance.now();
  for await (const bytes of streams(FRAMES * 2)) {
    readStream(bytes, counts);
    if (middleBytes === undefined && counts.frames >= FRAMES / 2) middleBytes = liveBytes();
    if (counts.frames >= FRAMES) break;
  }
  const seconds = ((performance.now() - begin) / 1000).toFixed(1);
  const growthBytes = liveBytes() - (middleBytes ?? 0);
  console.log(
    `${counts.frames} frames towards the gateway, ${counts.messages} good, ${counts.refused} streams refused, ` +
      `0 findings (seed ${SEED}, ${seconds} s, ` +
      `${(growthBytes / 1024).toFixed(0)} KiB more alive at the end than in the middle)`,
  );
  assert.ok(counts.frames >= FRAMES, `${counts.frames} of ${FRAMES} frames were read`);
  assert.ok(counts.messages > FRAMES / 10 && counts.refused > 0, 'some are good, some are not');
  assert.ok(growthBytes <= MAX_GROWTH_BYTES, `${growthBytes} bytes`);
});

test.run();
