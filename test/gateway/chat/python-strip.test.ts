import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { strip } from '../../../gateway/chat/python-strip.ts';

const test = suite('python-strip');
const both = (text: string, chars?: unknown) => strip(text, chars, true, true);

test('strips the characters that are asked for, and no others', () => {
  assert.is(strip('abc', 'c', false, true), 'ab');
  assert.is(strip('text \n\n', '\n', false, true), 'text ');
  assert.is(strip('\n text', '\n', true, false), ' text');
  assert.is(both('xyxmiddleyx', 'xy'), 'middle');
  assert.is(both('aaaa', 'a'), '');
  assert.is(both('', 'a'), '');
  assert.is(both(' a ', ''), ' a ');
});

test("without characters, strips Python's white space", () => {
  assert.is(both('\t\n\u0085\u001c\u3000a\u2028 '), 'a');
  assert.is(both('\uFEFFa\uFEFF'), '\uFEFFa\uFEFF');
  assert.is(both(' a ', null), 'a');
});

test('characters outside the basic plane are one character', () => {
  assert.is(both('👋a👋', '👋'), 'a');
  assert.is(both('👋a👍', '👋'), 'a👍');
  assert.is(both('\uDC4Ba', '👋'), '\uDC4Ba');
});

test('anything but text is refused', () => {
  assert.throws(() => both('a', 1), /takes a string/);
});

test.run();
