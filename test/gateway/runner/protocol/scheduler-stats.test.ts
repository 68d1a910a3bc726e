import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { CountersOverLives, countersOf } from '../../../../gateway/runner/protocol/scheduler-stats.ts';

const stats = suite('scheduler stats');

stats('counters go on over the lives of runners, and never back', () => {
  const counters = new CountersOverLives();
  const seen = () => [counters.sum().numFinished, counters.sum().busyUs];
  const count = (value: number) =>
    counters.update(countersOf((name) => (name === 'busyUs' ? 2 * value : value)));
  assert.equal(seen(), [0, 0]);
  count(3);
  count(5);
  assert.equal(seen(), [5, 10], 'a runner counts from its start, not from its last word');
  counters.endLife();
  counters.endLife();
  assert.equal(seen(), [5, 10]);
  count(1);
  assert.equal(seen(), [6, 12]);
});

stats.run();
