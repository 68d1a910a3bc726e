import { Writable } from 'node:stream';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { FrameWriter } from '../../../../gateway/runner/protocol/frame-writer.ts';
import { within } from '../../../fixtures/within.ts';

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

const writer = suite('frame writer');

writer('holds frames back while the pipe is full, in order', async () => {
  const { pipe, written, drain } = slowPipe();
  const frames = new FrameWriter(pipe);
  for (const text of ['a', 'b', 'c']) frames.send(text, Buffer.from(text));
  assert.equal(written, ['a']);
  await drain();
  assert.equal(written, ['a', 'b']);
  await drain();
  assert.equal(written, ['a', 'b', 'c']);
});

writer('keeps one frame of each key, at the place of the later one', async () => {
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

writer('ends the pipe after pending frames, and accepts no more', async () => {
  const { pipe, written, drain } = slowPipe();
  const frames = new FrameWriter(pipe);
  const finished = new Promise<void>((resolve) => pipe.once('finish', resolve));
  frames.send('a', Buffer.from('a'));
  frames.send('b', Buffer.from('b'));
  frames.end();
  frames.send('c', Buffer.from('c'));
  await drain();
  await drain();
  await within(1000, 'the end of the pipe', finished);
  assert.equal(written, ['a', 'b']);
});

writer('drops frames for a broken pipe', () => {
  const { pipe, written } = slowPipe();
  pipe.on('error', () => {});
  pipe.destroy(new Error('EPIPE'));
  const frames = new FrameWriter(pipe);
  frames.send('a', Buffer.from('a'));
  assert.equal(written, []);
});

writer.run();
