import { Histogram as PromHistogram, Registry } from 'prom-client';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { Histogram, MetricFamilies } from '../../../gateway/telemetry/metric-families.ts';
import { Random } from '../../fixtures/random.ts';

const test = suite('metric families');

test('the text of a histogram is that of the library’s own histogram, of the same values', async () => {
  const buckets = [0.001, 0.01, 0.25];
  const [ours, theirs] = [new MetricFamilies(), new Registry()];
  const series = ['native', 'openai'].map((api) => ({ labels: { api }, histogram: new Histogram(buckets) }));
  ours.histogram('seconds', 'Seconds between tokens', () => series);
  const histogram = new PromHistogram({
    name: 'seconds',
    help: 'Seconds between tokens',
    buckets,
    labelNames: ['api'],
    registers: [theirs],
  });
  const random = new Random();
  console.log(`seed ${random.seed}`);
  // The values include the bounds themselves and values above all bounds.
  const values = [0, 0.001, 0.25, 3, ...Array.from({ length: 100 }, () => random.below(500) / 1000)];
  for (const value of values) {
    for (const { labels, histogram: own } of series) {
      own.observe(value, 3);
      for (let count = 0; count < 3; count++) histogram.observe(labels, value);
    }
  }
  const withoutSum = (text: string) => text.replaceAll(/^seconds_sum.*$/gm, '');
  assert.is(withoutSum(await ours.text()), withoutSum(await theirs.metrics()));
  const sumOf = (text: string) => Number(/^seconds_sum\{api="native"\} (.*)$/m.exec(text)?.[1]);
  assert.ok(Math.abs(sumOf(await ours.text()) - sumOf(await theirs.metrics())) < 1e-9);
});

test.run();
