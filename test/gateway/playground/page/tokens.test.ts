import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import {
  type LogprobEntry,
  percent,
  probabilityOf,
  shadeOf,
  spansOf,
} from '../../../../gateway/playground/page/tokens.ts';

const test = suite('playground tokens');

function entry(bytes: Uint8Array | string, logprob = -1): LogprobEntry {
  const taken = typeof bytes === 'string' ? Buffer.from(bytes) : bytes;
  return { token: Buffer.from(taken).toString(), logprob, bytes: [...taken], top_logprobs: [] };
}

function shape(text: string, entries: readonly LogprobEntry[]): [string, number][] {
  return spansOf(text, entries).map((span) => [span.text, span.tokens.length]);
}

test('each token is a span, and those that share a character are one', () => {
  assert.equal(shape('Hi there', [entry('Hi'), entry(' there')]), [
    ['Hi', 1],
    [' there', 1],
  ]);
  const snow = Buffer.from('☃');
  assert.equal(shape('a☃b', [entry('a'), entry(snow.subarray(0, 1)), entry(snow.subarray(1)), entry('b')]), [
    ['a', 1],
    ['☃', 2],
    ['b', 1],
  ]);
});

test('the text that was sent counts: what its tokens do not make exactly is one span', () => {
  assert.equal(shape('there', [entry(' there')]), [['there', 1]], 'a space that was left out');
  assert.equal(shape('a b', [entry('a'), entry(' bc')]), [['a b', 2]], 'a stop sequence that was cut off');
  assert.equal(shape('\ufffd', [entry(Buffer.from([0xe2]))]), [['\ufffd', 1]], 'bytes that are no text');
  assert.equal(shape('plain', []), [['plain', 0]], 'no log-probabilities');
  assert.equal(
    shape('\ufeffa', [entry('\ufeff'), entry('a')]),
    [
      ['\ufeff', 1],
      ['a', 1],
    ],
    'a byte order mark is text',
  );
});

test('the less likely a token, the darker it is; a span is as dark as its least likely token', () => {
  assert.equal(
    [1, 0.5, 0.49, 0.2, 0.19, 0.05, 0.04, 0.01, 0.009, 0].map(shadeOf),
    [0, 0, 1, 1, 2, 2, 3, 3, 4, 4],
  );
  assert.is(shadeOf(undefined), 0);
  const [span] = spansOf('ab', [entry('a', 0), entry('x', Math.log(0.1))]);
  assert.ok(span);
  assert.ok(Math.abs((probabilityOf(span) as number) - 0.1) < 1e-9);
  assert.equal([0.5, 0.051, 0.0001].map(percent), ['50 %', '5.1 %', '< 0.1 %']);
});

test.run();
