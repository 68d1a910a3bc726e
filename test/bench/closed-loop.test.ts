import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { type Round, roundText, summaryText, valueAt } from './closed-loop-report.ts';

/** What the bench makes of its rounds; that it measures is seen by hand. */

const test = suite('closed loop');

function round(tokensPerSecond: number, p50: number, decoding: number): Round {
  return { tokensPerSecond, firstTokenMs: { p50, p95: 2 * p50 }, decoding };
}

test('a percentile is a value that came, and that of none is no number', () => {
  assert.is(valueAt([30, 10, 20], 0.5), 20);
  assert.is(valueAt([4, 1, 3, 2], 0.5), 2);
  assert.is(
    valueAt(
      Array.from({ length: 100 }, (_, i) => i + 1),
      0.95,
    ),
    95,
  );
  assert.ok(Number.isNaN(valueAt([], 0.5)));
});

test('a round is told in a line', () => {
  assert.is(
    roundText(round(178.04, 16_900, 7.72)),
    '178.0 tokens a second, first token after 16900 ms (p50), 33800 ms (p95), 7.7 streams decoding',
  );
});

test('runners are compared by medians, with their spread, and as times of the first', () => {
  const before = [round(180, 17_000, 7.7), round(170, 16_000, 7.9), round(200, 18_000, 7.6)];
  const after = [round(216, 850, 31), round(210, 800, 30), round(222, 1700, 30.9)];
  assert.is(
    summaryText(['a', 'b'], [before, after]),
    `| runner | tokens/s | first token p50, ms | first token p95, ms | streams decoding |
|---|---|---|---|---|
| a | 180.0 (170.0 to 200.0) | 17000.0 (16000.0 to 18000.0) | 34000.0 (32000.0 to 36000.0) | 7.7 (7.6 to 7.9) |
| b | 216.0 (210.0 to 222.0), 1.20 times | 850.0 (800.0 to 1700.0), 0.05 times | 1700.0 (1600.0 to 3400.0), 0.05 times | 30.9 (30.0 to 31.0), 4.01 times |`,
  );
});

test.run();
