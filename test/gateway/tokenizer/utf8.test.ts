import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { tokenText } from '../../../gateway/tokenizer/utf8.ts';

const test = suite('the text of a token');

test('bytes that are text are that text, a byte order mark too', () => {
  for (const text of ['', ' the', '€', '\ufeffa']) {
    assert.equal(tokenText(Buffer.from(text)), { text, isText: true });
  }
});

test('bytes that are not show what is not ASCII in hexadecimal', () => {
  assert.equal(tokenText(Uint8Array.of(0x20, 0xe2, 0x82)), { text: ' \\xe2\\x82', isText: false });
  assert.equal(tokenText(Uint8Array.of(0x80, 0x0a)), { text: '\\x80\n', isText: false });
});

test.run();
