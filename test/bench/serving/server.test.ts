import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { residentBytes } from '../../fixtures/process-memory.ts';
import { Random } from '../../fixtures/random.ts';
import { metricOf, randomPrompt } from './server.ts';

const test = suite('bench servers');

const METRICS = `# TYPE runnel_steps_total counter
runnel_steps_total{kind="prefill"} 2
runnel_steps_total{kind="mixed"} 40
runnel_step_seconds_total 1.5
llamacpp:n_decode_total 3
`;

test('a metric is the sum of its series, and one that is not there is no number', () => {
  assert.is(metricOf(METRICS, 'runnel_steps_total'), 42);
  assert.is(metricOf(METRICS, 'runnel_step_seconds_total'), 1.5);
  assert.is(metricOf(METRICS, 'llamacpp:n_decode_total'), 3);
  assert.ok(Number.isNaN(metricOf(METRICS, 'llamacpp:n_busy_slots_per_decode')));
});

test('a process has resident memory', () => {
  assert.ok(residentBytes(process.pid) > 10e6);
});

test('prompts differ, and are the same for the same seed', () => {
  const random = new Random(7);
  const [first, second] = [randomPrompt(random, 50), randomPrompt(random, 50)];
  assert.is(first.length, 50);
  assert.not.equal(first, second);
  assert.equal(randomPrompt(new Random(7), 50), first);
  assert.ok(first.every((id) => id >= 256 && id < 32_000));
});

test.run();
