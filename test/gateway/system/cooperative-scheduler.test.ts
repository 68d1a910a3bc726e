import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import {
  CooperativeScheduler,
  cooperativeLimits,
  finish,
  inOneStep,
  inSlices,
  OverloadedError,
  type Task,
} from '../../../gateway/system/cooperative-scheduler.ts';
import { errorOf } from '../../fixtures/errors.ts';
import { turnsDuring } from '../../fixtures/turns.ts';
import { within } from '../../fixtures/within.ts';

const test = suite('long work');
const LONG = cooperativeLimits.shortLength + 1;
const patienceMs = 10_000;

/** Each step takes longer than a slice, so that each has a turn of its own. */
function* slowSteps(numSteps: number, onStep: () => void): Task<number> {
  for (let i = 0; i < numSteps; i++) {
    const begin = performance.now();
    while (performance.now() - begin <= cooperativeLimits.sliceMs);
    onStep();
    yield;
  }
  return numSteps;
}

test('short work runs at once, in order of arrival', async () => {
  const work = new CooperativeScheduler();
  const done: string[] = [];
  const long = work.run(
    LONG,
    slowSteps(3, () => done.push('long')),
  );
  const short = work.run(
    cooperativeLimits.shortLength,
    slowSteps(2, () => done.push('short')),
  );
  assert.equal(done, ['short', 'short']);
  assert.equal(await within(patienceMs, 'Both', Promise.all([long, short])), [3, 2]);
});

test('the loop has a turn between two slices', async () => {
  let numTurns = 0;
  let isDone = false;
  const turn = (): void => {
    numTurns++;
    if (!isDone) setImmediate(turn);
  };
  setImmediate(turn);
  await within(
    patienceMs,
    'The work',
    new CooperativeScheduler().run(
      LONG,
      slowSteps(20, () => {}),
    ),
  );
  isDone = true;
  assert.ok(numTurns >= 20, `${numTurns} turns`);
});

test('a single long work runs at a time, then the shortest waiting one', async () => {
  const work = new CooperativeScheduler();
  const order: number[] = [];
  const lengths = [LONG + 5, LONG + 9, LONG + 1, LONG + 7];
  await within(
    patienceMs,
    'All',
    Promise.all(
      lengths.map((length) =>
        work.run(
          length,
          slowSteps(2, () => order.push(length - LONG)),
        ),
      ),
    ),
  );
  assert.equal(order, [5, 5, 1, 1, 7, 7, 9, 9]);
});

test('work beyond the queue limit is refused, and the rest is not', async () => {
  const work = new CooperativeScheduler();
  const all = Array.from({ length: cooperativeLimits.waiting + 1 }, (_, i) =>
    work.run(
      LONG,
      inOneStep(() => i),
    ),
  );
  const error = await errorOf(() =>
    work.run(
      LONG,
      inOneStep(() => -1),
    ),
  );
  assert.instance(error, OverloadedError);
  assert.match(error.message, `${cooperativeLimits.waiting} large requests already wait`);
  assert.is((await within(patienceMs, 'The others', Promise.all(all))).length, cooperativeLimits.waiting + 1);
});

test('an error rejects only its own work, and the next one runs', async () => {
  const work = new CooperativeScheduler();
  const failing = work.run(
    LONG,
    inOneStep(() => {
      throw new Error('its own');
    }),
  );
  const next = work.run(
    LONG,
    inOneStep(() => 'next'),
  );
  assert.is((await errorOf(() => failing)).message, 'its own');
  assert.is(await within(patienceMs, 'The next', next), 'next');
});

test('nobody works for a client that is gone', async () => {
  const work = new CooperativeScheduler();
  const gone = new AbortController();
  let numSteps = 0;
  const leaving = work.run(
    LONG,
    slowSteps(1000, () => {
      numSteps++;
      if (numSteps === 2) gone.abort(new Error('gone'));
    }),
    gone.signal,
  );
  assert.is((await errorOf(() => within(patienceMs, 'The end', leaving))).message, 'gone');
  assert.is(numSteps, 2);
});

test('work that waits for nobody leaves others a turn between two slices, and throws what it throws', async () => {
  const { result, numTurns } = await turnsDuring(() =>
    within(patienceMs, 'The work', inSlices(slowSteps(20, () => {}))),
  );
  assert.is(result, 20);
  assert.ok(numTurns >= 20, `${numTurns} turns`);
  const failing = inOneStep(() => {
    throw new Error('its own');
  });
  assert.is((await errorOf(() => inSlices(failing))).message, 'its own');
});

test('all steps at once give the same', () => {
  assert.is(finish(slowSteps(2, () => {})), 2);
});

/** A task that waits until it is told to go on. */
function waiting() {
  let goOn = (): void => {};
  const told = new Promise<void>((resolve) => {
    goOn = resolve;
  });
  const log: string[] = [];
  function* steps(): Task<string> {
    try {
      log.push('waits');
      yield told;
      log.push('goes on');
      return 'done';
    } finally {
      log.push('ended');
    }
  }
  return { steps: steps(), log, goOn };
}

test('work that awaits something keeps its turn without blocking the loop', async () => {
  const work = new CooperativeScheduler();
  for (const length of [LONG, 1]) {
    const { steps, log, goOn } = waiting();
    const first = work.run(length, steps);
    let isDone = false;
    const second = work.run(
      LONG,
      inOneStep(() => {
        isDone = true;
      }),
    );
    for (let turn = 0; turn < 100; turn++) await new Promise((resolve) => setImmediate(resolve));
    assert.equal(log, ['waits']);
    assert.is(isDone, false, 'one at a time');
    goOn();
    assert.is(await within(patienceMs, 'The first', first), 'done');
    await within(patienceMs, 'The second', second);
    assert.equal(log, ['waits', 'goes on', 'ended']);
  }
  const { steps, goOn } = waiting();
  const sliced = inSlices(steps);
  goOn();
  assert.is(await within(patienceMs, 'The work', sliced), 'done');
  assert.throws(() => finish(waiting().steps), /waits for something/);
});

test('whoever leaves while its work waits is answered at once, its work is ended, and the next one goes on', async () => {
  const work = new CooperativeScheduler();
  const gone = new AbortController();
  const { steps, log } = waiting();
  const leaving = work.run(LONG, steps, gone.signal);
  const next = work.run(
    LONG,
    inOneStep(() => 'next'),
  );
  for (let turn = 0; turn < 10; turn++) await new Promise((resolve) => setImmediate(resolve));
  gone.abort(new Error('gone'));
  assert.is((await errorOf(() => within(patienceMs, 'The end', leaving))).message, 'gone');
  assert.equal(log, ['waits', 'ended']);
  assert.is(await within(patienceMs, 'The next', next), 'next');
});

test.run();
