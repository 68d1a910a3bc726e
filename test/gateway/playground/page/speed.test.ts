import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { SAMPLE_MS, SPEED_WINDOW_SEC, SpeedHistory } from '../../../../gateway/playground/page/speed.ts';

const test = suite('playground speed');

test('own tokens are counted over each sample, and a pause is none', () => {
  const speed = new SpeedHistory();
  for (const [index, tokens] of [5, 10, 0, 4].entries()) {
    speed.countOwn(tokens);
    speed.sample(index * SAMPLE_MS);
  }
  assert.equal(
    speed.samples.map(({ own }) => own),
    [10, 20, 0, 8],
  );
});

test('the server’s rate is that of its counter over the last seconds, and begins anew with another runner', () => {
  const speed = new SpeedHistory();
  const rates: (number | null)[] = [];
  for (const [index, tokens] of [100, 110, 130, 150, 150, 5, 25, undefined, 30].entries()) {
    speed.countServer(tokens, index * 1000);
    speed.sample(index * 1000);
    rates.push(speed.samples.at(-1)?.server ?? null);
  }
  assert.equal(rates, [null, 10, 15, 50 / 3, 40 / 3, null, 20, null, null]);
});

test('a minute is kept, and what came while the page was hidden is no speed', () => {
  const speed = new SpeedHistory();
  speed.noteRestart(0);
  speed.sample(0);
  speed.countOwn(1000);
  speed.sample(10_000);
  assert.is(speed.samples.at(-1)?.own, 0);
  for (let ms = 10_000; ms <= 90_000; ms += SAMPLE_MS) speed.sample(ms);
  assert.is(speed.samples.length, (SPEED_WINDOW_SEC * 1000) / SAMPLE_MS);
  assert.equal(speed.restarts, []);
});

test.run();
