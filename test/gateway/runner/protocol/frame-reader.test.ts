import { PassThrough } from 'node:stream';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { FrameDecoder } from '../../../../gateway/runner/protocol/frame.ts';
import { FrameReader, maxTurnMs } from '../../../../gateway/runner/protocol/frame-reader.ts';
import { until } from '../../../fixtures/within.ts';

const numFrames = 1000;
const takesMs = 0.5;

/** A reader whose clock advances with each frame. Records the turn of the loop in which each frame was taken. */
function reader() {
  const input = new PassThrough();
  let nowMs = 0;
  let turn = 0;
  const taken: { value: number; turn: number }[] = [];
  const ends: number[] = [];
  const decoder = new FrameDecoder(16, ([value = 0]) => {
    nowMs += takesMs;
    taken.push({ value, turn });
  });
  const events = { guard: (action: () => void) => action(), onEnd: () => ends.push(taken.length) };
  const frames = new FrameReader(input, decoder, events, () => nowMs);
  let isStopped = false;
  const countTurns = (): void => {
    turn += 1;
    if (!isStopped) setImmediate(countTurns).unref();
  };
  countTurns();
  return {
    ...{ input, frames, taken, ends },
    stop: () => {
      isStopped = true;
    },
  };
}

/** This many frames of one byte each, counted from 0. */
const framesOf = (count: number) =>
  Uint8Array.from({ length: 2 * count }, (_, at) => (at % 2 === 0 ? 1 : at >> 1));

const test = suite('frame reader');

test('a chunk with more than a turn is good for is taken in turns, in order, to its end', async () => {
  const { input, taken, ends, stop } = reader();
  input.end(framesOf(numFrames));
  let numBefore = 0;
  let most = 0;
  while (ends.length === 0) {
    await new Promise(setImmediate);
    most = Math.max(most, taken.length - numBefore);
    numBefore = taken.length;
  }
  stop();
  assert.equal(
    taken.map(({ value }) => value),
    Array.from({ length: numFrames }, (_, at) => at & 255),
  );
  assert.equal(ends, [numFrames], 'the end is told behind the last frame, once');
  assert.ok(most <= 2 * (maxTurnMs / takesMs), `${most} frames between two looks`);
});

test('while frames wait, other callbacks run and the pipe is not read', async () => {
  const { input, taken, stop } = reader();
  input.write(framesOf(numFrames));
  await until(10_000, 'the first frames', () => taken.length > 0);
  assert.ok(input.isPaused());
  await until(10_000, 'all frames', () => taken.length === numFrames);
  await until(10_000, 'the pipe to be read again', () => !input.isPaused());
  assert.ok(new Set(taken.map(({ turn }) => turn)).size > 3, 'others ran in between');
  input.write(framesOf(1));
  await until(10_000, 'one more', () => taken.length === numFrames + 1);
  stop();
});

test('frames pending when the pipe breaks are delivered before the end', async () => {
  const { input, taken, ends, stop } = reader();
  input.write(framesOf(numFrames));
  await until(10_000, 'the first frames', () => taken.length > 0);
  input.destroy();
  await until(10_000, 'the end', () => ends.length > 0);
  stop();
  assert.equal(ends, [numFrames]);
});

test('a stopped reader takes no more frames', async () => {
  const { input, frames, taken, ends, stop } = reader();
  input.write(framesOf(numFrames));
  await until(10_000, 'the first frames', () => taken.length > 0);
  frames.stop();
  const numTaken = taken.length;
  for (let turns = 0; turns < 10; turns += 1) await new Promise(setImmediate);
  stop();
  assert.equal([taken.length, ends.length], [numTaken, 0]);
});

test.run();
