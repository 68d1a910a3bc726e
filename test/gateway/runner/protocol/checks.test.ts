import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import {
  maxNoticesAtOnce,
  maxNoticesPerSecond,
  NoticeRate,
} from '../../../../gateway/runner/protocol/checks.ts';
import { ProtocolError } from '../../../../gateway/runner/protocol/frame.ts';

const test = suite('notice rate');

test('a pipe full of notices may come at once, and one more may not', () => {
  const rate = new NoticeRate(() => 0);
  for (let index = 0; index < maxNoticesAtOnce; index += 1) rate.count('heartbeat');
  assert.throws(
    () => rate.count('heartbeat'),
    (error: unknown) =>
      error instanceof ProtocolError && error.kind === 'rate' && /heartbeat/.test(error.message),
  );
});

test('notices at the permitted rate are accepted indefinitely', () => {
  let nowMs = 0;
  const rate = new NoticeRate(() => nowMs);
  for (let index = 0; index < 20 * maxNoticesAtOnce; index += 1) {
    nowMs += 1000 / maxNoticesPerSecond;
    rate.count('stats');
  }
});

test('a long silence earns no more than a pipe holds', () => {
  let nowMs = 0;
  const rate = new NoticeRate(() => nowMs);
  nowMs = 24 * 3_600_000;
  for (let index = 0; index < maxNoticesAtOnce; index += 1) rate.count('stats');
  assert.throws(() => rate.count('stats'));
});

test.run();
