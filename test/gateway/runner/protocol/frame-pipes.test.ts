import { PassThrough, Writable } from 'node:stream';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import {
  FrameDecoder,
  FrameReader,
  FrameWriter,
  maxTurnMs,
} from '../../../../gateway/runner/protocol/frame.ts';
import { PATIENCE_MS, until, within } from '../../../fixtures/within.ts';

const test = suite('frame pipes');

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
  await until(PATIENCE_MS, 'the first frames', () => taken.length > 0);
  assert.ok(input.isPaused());
  await until(PATIENCE_MS, 'all frames', () => taken.length === numFrames);
  await until(PATIENCE_MS, 'the pipe to be read again', () => !input.isPaused());
  assert.ok(new Set(taken.map(({ turn }) => turn)).size > 3, 'others ran in between');
  input.write(framesOf(1));
  await until(PATIENCE_MS, 'one more', () => taken.length === numFrames + 1);
  stop();
});

test('frames pending when the pipe breaks are delivered before the end', async () => {
  const { input, taken, ends, stop } = reader();
  input.write(framesOf(numFrames));
  await until(PATIENCE_MS, 'the first frames', () => taken.length > 0);
  input.destroy();
  await until(PATIENCE_MS, 'the end', () => ends.length > 0);
  stop();
  assert.equal(ends, [numFrames]);
});

test('a stopped reader takes no more frames', async () => {
  const { input, frames, taken, ends, stop } = reader();
  input.write(framesOf(numFrames));
  await until(PATIENCE_MS, 'the first frames', () => taken.length > 0);
  frames.stop();
  const numTaken = taken.length;
  for (let turns = 0; turns < 10; turns += 1) await new Promise(setImmediate);
  stop();
  assert.equal([taken.length, ends.length], [numTaken, 0]);
});

/** A pipe that accepts a write only when the test lets it. */
function slowPipe() {
  const written: string[] = [];
  let release: (() => void) | undefined;
  const pipe = new Writable({
    highWaterMark: 1,
    write(chunk: Buffer, _, done) {
      written.push(chunk.toString());
      release = done;
    },
  });
  const drain = () => {
    const done = release;
    release = undefined;
    done?.();
    return new Promise((resolve) => setImmediate(resolve));
  };
  return { pipe, written, drain };
}

test('holds frames back while the pipe is full, in order', async () => {
  const { pipe, written, drain } = slowPipe();
  const frames = new FrameWriter(pipe);
  for (const text of ['a', 'b', 'c']) frames.send(text, Buffer.from(text));
  assert.equal(written, ['a']);
  await drain();
  assert.equal(written, ['a', 'b']);
  await drain();
  assert.equal(written, ['a', 'b', 'c']);
});

test('keeps one frame of each key, at the place of the later one', async () => {
  const { pipe, written, drain } = slowPipe();
  const frames = new FrameWriter(pipe);
  frames.send('first', Buffer.from('first'));
  for (let round = 0; round < 1000; round += 1) {
    frames.send('flow 1', Buffer.from('pause 1'));
    frames.send('cancel 2', Buffer.from('cancel 2'));
    frames.send('flow 1', Buffer.from('resume 1'));
  }
  for (let round = 0; round < 5; round += 1) await drain();
  assert.equal(written, ['first', 'cancel 2', 'resume 1']);
});

test('ends the pipe after pending frames, and accepts no more', async () => {
  const { pipe, written, drain } = slowPipe();
  const frames = new FrameWriter(pipe);
  const finished = new Promise<void>((resolve) => pipe.once('finish', resolve));
  frames.send('a', Buffer.from('a'));
  frames.send('b', Buffer.from('b'));
  frames.end();
  frames.send('c', Buffer.from('c'));
  await drain();
  await drain();
  await within(PATIENCE_MS, 'the end of the pipe', finished);
  assert.equal(written, ['a', 'b']);
});

test('drops frames for a broken pipe', () => {
  const { pipe, written } = slowPipe();
  pipe.on('error', () => {});
  pipe.destroy(new Error('EPIPE'));
  const frames = new FrameWriter(pipe);
  frames.send('a', Buffer.from('a'));
  assert.equal(written, []);
});

test.run();
