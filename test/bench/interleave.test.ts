import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { type Figures, interleave, type Subject } from './interleave.ts';

const test = suite('bench rounds');

/** What was measured, in order: engine, setting and round. */
let order: string[] = [];

function subject(engine: string, figures: Readonly<Record<string, Figures | Error>>): Subject {
  const measure = async (setting: string, round: number): Promise<Figures> => {
    order.push(`${engine}${setting} ${round}`);
    const result = figures[setting];
    if (result === undefined || result instanceof Error) throw result;
    return result;
  };
  return { engine, settings: Object.keys(figures), measure };
}

test.before.each(() => {
  order = [];
});

test('subjects are measured in turn, and one that has no choice has no trial', async () => {
  const [a, b] = [subject('a', { '': { prefill: 10 } }), subject('b', { '': { prefill: 5 } })];
  const measured = await interleave([a, b], { rounds: 2 });
  assert.equal(order, ['a 1', 'b 1', 'a 2', 'b 2']);
  assert.equal(measured[0], {
    engine: 'a',
    metrics: { prefill: { setting: '', rounds: [10, 10] } },
    failures: [],
  });
});

test('each metric has the setting that was best at it in a trial that does not count', async () => {
  const peer = subject('p', {
    ' -fa 0': { decode8: 90, decode32: 100, gapP99: 7 },
    ' -fa 1': { decode8: 80, decode32: 120, gapP99: 5 },
  });
  const [measured] = await interleave([peer], { rounds: 2 });
  assert.equal(order, ['p -fa 0 0', 'p -fa 1 0', 'p -fa 0 1', 'p -fa 1 1', 'p -fa 0 2', 'p -fa 1 2']);
  assert.equal(measured?.metrics, {
    decode8: { setting: ' -fa 0', rounds: [90, 90] },
    decode32: { setting: ' -fa 1', rounds: [120, 120] },
    // For this metric less is better.
    gapP99: { setting: ' -fa 1', rounds: [5, 5] },
  });
});

test('a single metric can decide, and settings that lose are not repeated', async () => {
  const peer = subject('p', { ' -fa 0': { served: 90, gapP99: 5 }, ' -fa 1': { served: 95, gapP99: 7 } });
  const [measured] = await interleave([peer], { rounds: 1, decider: 'served' });
  assert.equal(order, ['p -fa 0 0', 'p -fa 1 0', 'p -fa 1 1']);
  assert.is(measured?.metrics.gapP99?.setting, ' -fa 1');
});

test('a setting that fails is named, and the others are measured', async () => {
  const peer = subject('p', { '-fa 0': { prefill: 9 }, '-fa 1': new Error('ended with a signal') });
  const [measured] = await interleave([peer], { rounds: 1 });
  assert.equal(measured?.failures, ['p -fa 1: ended with a signal']);
  assert.equal(measured?.metrics, { prefill: { setting: '-fa 0', rounds: [9] } });
});

test('a subject that fails is named, has no figures, and stops none of the others', async () => {
  const fails = subject('p', { '': new Error('there is no llama-bench in its folder') });
  const said: string[] = [];
  const plan = { rounds: 2, onRound: (text: string) => said.push(text) };
  const measured = await interleave([fails, subject('a', { '': { prefill: 1 } })], plan);
  assert.equal(measured[0], {
    engine: 'p',
    metrics: {},
    failures: ['p: there is no llama-bench in its folder'],
  });
  assert.equal(measured[1]?.metrics.prefill?.rounds, [1, 1]);
  assert.equal(order, ['p 1', 'a 1', 'a 2']);
  assert.equal(said, [
    'failed, p: there is no llama-bench in its folder',
    'round 1, a: prefill 1 tokens/s',
    'round 2, a: prefill 1 tokens/s',
  ]);
});

test.run();
