import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import {
  maxLengthPerSecond,
  maxLineLength,
  maxReadPerSecond,
  maxTailLength,
  minLineLength,
  StderrReader,
} from '../../../../gateway/runner/process/stderr.ts';
import { loopMs } from '../../../fixtures/loop-time.ts';

function readerOf() {
  const lines: string[] = [];
  const clock = { nowMs: 0 };
  const reader = new StderrReader(
    (line) => lines.push(line),
    () => clock.nowMs,
  );
  return { reader, lines, clock, say: (text: string) => reader.push(Buffer.from(text)) };
}

const stderr = suite('stderr');

stderr('gives whole lines, whatever the pieces, and the last without its newline', () => {
  const { reader, lines } = readerOf();
  for (const byte of Buffer.from('one\r\nzw\u00f6lf \u2713\n\nlast')) reader.push(Uint8Array.of(byte));
  reader.end();
  assert.equal(lines, ['one', 'zw\u00f6lf \u2713', '', 'last']);
});

stderr('escapes control characters', () => {
  const { lines, say } = readerOf();
  say('\u001b[2Jred\u0007\rover\n');
  assert.equal(lines, ['\\u001b[2Jred\\u0007\\u000dover']);
});

stderr('cuts a line that is too long', () => {
  const { lines, say } = readerOf();
  for (let round = 0; round < 100; round += 1) say('x'.repeat(1000));
  say('\nnext\n');
  assert.equal(lines, [`${'x'.repeat(maxLineLength)} [cut]`, 'next']);
});

stderr('drops a flood, says how much, and keeps its end', () => {
  const { reader, lines, clock, say } = readerOf();
  for (let index = 0; index < 20_000; index += 1) say(`line ${index}\n`);
  assert.ok(lines.join('\n').length <= maxLengthPerSecond);
  const numKept = lines.length;
  assert.match(reader.tail, /line 19999\n$/);
  assert.ok(reader.tail.length <= maxTailLength);
  clock.nowMs += 1000;
  say('calm again\n');
  const report = `[${20_000 - numKept} lines dropped: more than ${maxLengthPerSecond} characters in a second]`;
  assert.equal(lines.slice(numKept), [report, 'calm again']);
});

stderr('a flood of empty lines is one, too, and each costs what an entry of the log does', () => {
  const { lines, say } = readerOf();
  say('\n'.repeat(200_000));
  assert.is(lines.length, maxLengthPerSecond / minLineLength);
});

stderr('dropping a second’s worth of newlines costs little more than scanning them', () => {
  const { reader, lines } = readerOf();
  const chunk = Buffer.alloc(64 * 1024, '\n');
  /** Processor time of this thread, which a busy machine does not change. */
  const msOf = (take: () => void): number => {
    const beforeMs = loopMs();
    for (let numRead = 0; numRead < maxReadPerSecond; numRead += chunk.length) take();
    return loopMs() - beforeMs;
  };
  const readMs = msOf(() => reader.push(chunk));
  const splitMs = msOf(() => chunk.toString().split('\n'));
  const took = `${maxReadPerSecond} newlines are read in ${readMs.toFixed(1)} ms, and split in ${splitMs.toFixed(1)} ms`;
  console.log(took);
  assert.ok(lines.length > 0);
  // A reader that cuts the tail anew for each line takes a hundred times as long.
  assert.ok(readMs <= 20 * splitMs, took);
});

stderr('above a rate nothing is to be read for the rest of the second', () => {
  const { reader, clock } = readerOf();
  const chunk = Buffer.alloc(64 * 1024, 'x');
  clock.nowMs = 5000;
  for (let numRead = 0; numRead < maxReadPerSecond; numRead += chunk.length) reader.push(chunk);
  assert.is(reader.pauseMs, 0);
  clock.nowMs = 5400;
  reader.push(chunk);
  assert.is(reader.pauseMs, 600);
  clock.nowMs = 6000;
  assert.is(reader.pauseMs, 0);
  reader.push(chunk);
  assert.is(reader.pauseMs, 0, 'another second, another measure');
});

stderr('the tail is kept across chunks, has what has no newline yet, and its controls escaped', () => {
  const { reader, say } = readerOf();
  say('x'.repeat(2 * maxTailLength));
  say('one\u0007\r\ntw');
  say('o');
  assert.match(reader.tail, /^x+one\\u0007\ntwo$/);
  assert.is(reader.tail.length, maxTailLength);
});

stderr('at its end it says what was dropped last', () => {
  const { reader, lines, say } = readerOf();
  for (let index = 0; index < 20_000; index += 1) say(`line ${index}\n`);
  reader.end();
  assert.match(lines.at(-1) ?? '', /lines dropped/);
});

stderr.run();
