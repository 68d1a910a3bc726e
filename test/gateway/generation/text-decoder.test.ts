import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { decodeAll, StreamingDecoder } from '../../../gateway/generation/text-decoder.ts';
import { Random } from '../../fixtures/random.ts';

const test = suite('decoder');

/** A decoder in which token n is the n-th of `tokens`. 'control' stands for a control token. */
function decoderOf(tokens: readonly (readonly number[] | 'control')[], marks?: ReadonlyMap<number, string>) {
  const tokenizer = {
    bytes: (id: number) => {
      const token = tokens[id];
      if (token === undefined) throw new RangeError(`The token ${id} is outside the vocabulary.`);
      return token === 'control' ? Buffer.from('<|im_end|>') : Uint8Array.from(token);
    },
    isControl: (id: number) => tokens[id] === 'control',
    addsSpace: false,
  };
  return new StreamingDecoder(tokenizer, false, marks);
}

/** What each token returns, in order. */
function pieces(...tokens: (readonly number[] | 'control')[]): string[] {
  const decoder = decoderOf(tokens);
  return tokens.map((_, id) => decoder.decode(id));
}

test('a character comes when it is complete', () => {
  assert.equal(pieces([0xc3], [0xb1]), ['', 'ñ']);
  assert.equal(pieces([0xe4], [0xb8, 0x96]), ['', '世']);
  assert.equal(pieces([0xf0, 0x9f], [0x91, 0x8b]), ['', '👋']);
  assert.equal(pieces([0xf0], [0x9f], [0x91], [0x8b, 0x21]), ['', '', '', '👋!']);
  assert.equal(pieces([0x61, 0xc3], [0xb1, 0x62, 0xe4]), ['a', 'ñb']);
});

test('an invalid byte becomes U+FFFD at once and holds nothing up', () => {
  assert.equal(pieces([0xff], [0x61]), ['\uFFFD', 'a']);
  assert.equal(pieces([0x80], [0x61]), ['\uFFFD', 'a']);
  assert.equal(pieces([0xc3], [0x61]), ['', '\uFFFDa']);
  // Overlong forms, surrogates and code points above U+10FFFF are invalid from their second byte on.
  assert.equal(pieces([0xc0]), ['\uFFFD']);
  assert.equal(pieces([0xe0, 0x80]), ['\uFFFD\uFFFD']);
  assert.equal(pieces([0xed, 0xa0]), ['\uFFFD\uFFFD']);
  assert.equal(pieces([0xf0, 0x8f]), ['\uFFFD\uFFFD']);
  assert.equal(pieces([0xf4, 0x90]), ['\uFFFD\uFFFD']);
  assert.equal(pieces([0xf5]), ['\uFFFD']);
});

test('a byte order mark and NUL are text like any other', () => {
  assert.equal(pieces([0xef, 0xbb, 0xbf], [0x61], [0xef], [0xbb, 0xbf], [0]), [
    '\uFEFF',
    'a',
    '',
    '\uFEFF',
    '\0',
  ]);
});

test('control tokens give nothing and do not come between the bytes of a character', () => {
  assert.equal(pieces([0xc3], 'control', [0xb1]), ['', '', 'ñ']);
});

test('a mark is decoded for its control token, and ends an incomplete character', () => {
  const decoder = decoderOf([[0x61], [0xc3], 'control', [0x62], 'control'], new Map([[2, '<mark>']]));
  assert.equal(
    [0, 1, 2, 3, 4, 3].map((id) => decoder.decode(id)),
    ['a', '', '<mark>', 'b', '', 'b'],
  );
});

test('the end drops an incomplete character, and the decoder starts afresh', () => {
  const decoder = decoderOf([
    [0x61, 0xf0, 0x9f],
    [0x91, 0x8b],
  ]);
  assert.is(decoder.decode(0), 'a');
  assert.is(decoder.hasPending, true);
  assert.is(decoder.flush(), '');
  assert.is(decoder.hasPending, false);
  assert.is(decoder.decode(1), '\uFFFD\uFFFD');
});

test('an id outside the vocabulary is a RangeError and changes nothing', () => {
  const decoder = decoderOf([[0xc3], [0xb1]]);
  decoder.decode(0);
  assert.throws(() => decoder.decode(2), RangeError);
  assert.is(decoder.decode(1), 'ñ');
});

test('however bytes are cut into tokens, the text is that of all bytes at once', () => {
  const random = new Random();
  const whole = new TextDecoder('utf-8', { ignoreBOM: true });
  const valid = [...Buffer.from('añ世👋\uFEFF👨‍👩‍👧שלום e\u0301\0'.repeat(20), 'utf8')];
  for (let run = 0; run < 3_000; run++) {
    const isValid = run % 2 === 0;
    const bytes = isValid
      ? valid
      : Array.from({ length: random.below(40) }, () =>
          random.pick([0x61, 0x80, 0xbf, 0xc3, 0xe0, 0xed, 0xf0, 0xf4, 0x9f, 0x90, 0xff]),
        );
    const tokens: number[][] = [];
    for (let at = 0; at < bytes.length; ) {
      const length = 1 + random.below(5);
      tokens.push(bytes.slice(at, at + length));
      at += length;
    }
    const decoder = decoderOf(tokens);
    let text = '';
    for (const id of tokens.keys()) text += decoder.decode(id);
    const expected = whole.decode(Uint8Array.from(bytes));
    // The end may hold back an incomplete character, for which decoding at once gives one U+FFFD.
    assert.is(decoder.hasPending ? `${text}\uFFFD` : text, expected, `seed ${random.seed}, run ${run}`);
    if (isValid) assert.not.ok(text.includes('\uFFFD'));
  }
});

test('decodeAll is the text of all tokens', () => {
  const tokenizer = {
    bytes: (id: number) => Uint8Array.of(id),
    isControl: (id: number) => id === 7,
    addsSpace: false,
  };
  assert.is(decodeAll(tokenizer, [0x61, 7, 0xc3, 0xb1, 0xe4]), 'añ');
});

test('the space that encoding puts in front of a text is taken away where a text begins, once', () => {
  const tokenizer = {
    bytes: (id: number) => Buffer.from([' a', ' ', 'b', '<s>', ''][id] as string),
    isControl: (id: number) => id === 3,
    addsSpace: true,
  };
  assert.is(decodeAll(tokenizer, [0, 0]), 'a a');
  assert.is(decodeAll(tokenizer, [3, 0, 0]), 'a a');
  assert.is(decodeAll(tokenizer, [4, 1, 0]), ' a');
  assert.is(decodeAll(tokenizer, [2, 0]), 'b a');
  const answer = new StreamingDecoder(tokenizer);
  assert.is(answer.decode(0) + answer.decode(2), ' ab', 'an answer goes on from its prompt');
  assert.is(decodeAll({ ...tokenizer, addsSpace: false }, [0]), ' a');
});

test.run();
