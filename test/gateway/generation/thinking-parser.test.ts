import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { ThinkingParser } from '../../../gateway/generation/thinking-parser.ts';
import { thinkingOf } from '../../../gateway/prompt/thinking-format.ts';

const test = suite('thinking-parser');

const format = thinkingOf('</think>');
assert.ok(format);
const free = { format, isOpen: false };
const open = { format, isOpen: true };

function read(thinking: typeof free, pieces: readonly string[]): [string, string] {
  const parser = new ThinkingParser(thinking);
  let [thought, said] = ['', ''];
  for (const part of [...pieces.map((piece) => parser.push(piece)), parser.flush()]) {
    assert.not.ok(part.thought !== '' && said !== '', 'nothing is thought behind a text');
    thought += part.thought;
    said += part.text;
  }
  return [thought, said];
}

const answers: readonly [typeof free, string, string, string][] = [
  [free, '<think>\nHm, 1 < 2.\n\nYes.\n</think>\n\nIt is.\n', 'Hm, 1 < 2.\n\nYes.', 'It is.\n'],
  [open, 'Hm.\n</think>\n\nIt is.', 'Hm.', 'It is.'],
  [open, '\n\nHm.</think>It is.', 'Hm.', 'It is.'],
  [free, '<think></think>It is.', '', 'It is.'],
  [free, '<think>\n\n</think>\n\n', '', ''],
  // The answer is cut short.
  [free, '<think>\nHm, </thi', 'Hm, </thi', ''],
  [open, 'Hm.\n\n', 'Hm.', ''],
  [free, '<thi', '', '<thi'],
  // There is no thinking, or its mark comes too late.
  [free, 'It is <think>not</think> this.', '', 'It is <think>not</think> this.'],
  [free, '\n <think>so</think>x', 'so', 'x'],
  [free, `${' '.repeat(17)}<think>so</think>x`, '', `${' '.repeat(17)}<think>so</think>x`],
  // After the first end mark, further marks are text.
  [open, 'a</think>b</think>c<think>d', 'a', 'b</think>c<think>d'],
  [open, 'a</</think>b', 'a</', 'b'],
  [open, 'a</think</think>b', 'a</think', 'b'],
  [open, `a${'\n'.repeat(20)}</think>c`, `a${'\n'.repeat(12)}`, 'c'],
  [open, `a${'\n'.repeat(20)}b</think>c`, `a${'\n'.repeat(20)}b`, 'c'],
];

test('thoughts and answer are the same at every cut into two and three', () => {
  for (const [thinking, answer, ...expected] of answers) {
    for (let i = 0; i <= answer.length; i++) {
      for (let j = i; j <= answer.length; j++) {
        const pieces = [answer.slice(0, i), answer.slice(i, j), answer.slice(j)];
        assert.equal(read(thinking, pieces), expected, JSON.stringify(pieces));
      }
    }
    assert.equal(read(thinking, [...answer]), expected, JSON.stringify(answer));
  }
});

test('only text that may begin a marker is held back', () => {
  const parser = new ThinkingParser(free);
  assert.is(parser.isThinking, undefined);
  assert.equal(parser.push('<think>\nHm'), { thought: 'Hm', text: '' });
  assert.is(parser.isThinking, true);
  assert.equal(parser.push(', <'), { thought: ', ', text: '' });
  assert.equal(parser.push('b>'), { thought: '<b>', text: '' });
  assert.equal(parser.push('\n</think>It'), { thought: '', text: 'It' });
  assert.is(parser.isThinking, false);
  assert.equal(parser.push(' <'), { thought: '', text: ' <' });
});

test('line breaks beyond a bound are not held back', () => {
  const parser = new ThinkingParser(open);
  assert.equal(parser.push(`a${'\n'.repeat(100)}`), { thought: `a${'\n'.repeat(92)}`, text: '' });
});

test.run();
