import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import {
  maxLengthPerSecond,
  maxLineLength,
  maxTailLength,
  StderrReader,
} from '../../../gateway/runner/stderr.ts';

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

stderr('a flood of empty lines is one, too', () => {
  const { lines, say } = readerOf();
  say('\n'.repeat(200_000));
  assert.ok(lines.length <= maxLengthPerSecond);
});

stderr('at its end it says what was dropped last', () => {
  const { reader, lines, say } = readerOf();
  for (let index = 0; index < 20_000; index += 1) say(`line ${index}\n`);
  reader.end();
  assert.match(lines.at(-1) ?? '', /lines dropped/);
});

stderr.run();
