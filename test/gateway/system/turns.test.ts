import { setImmediate as nextTurn } from 'node:timers/promises';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { TurnEnd } from '../../../gateway/system/turns.ts';

const test = suite('turn end');

test('each added object is called once per turn, in order of addition', async () => {
  const turnEnd = new TurnEnd();
  const called: string[] = [];
  const [a, b] = ['a', 'b'].map((name) => ({ onTurnEnd: () => void called.push(name) }));
  if (a === undefined || b === undefined) throw new Error('There are two.');
  for (const each of [b, a, b, a]) turnEnd.add(each);
  assert.equal(called, [], 'not before the end');
  await nextTurn();
  assert.equal(called, ['b', 'a']);
  await nextTurn();
  turnEnd.add(a);
  await nextTurn();
  assert.equal(called, ['b', 'a', 'a']);
});

test('an object added during the end of a turn is called in it', async () => {
  const turnEnd = new TurnEnd();
  const called: string[] = [];
  const last = { onTurnEnd: () => void called.push('last') };
  const first = {
    onTurnEnd: () => {
      called.push('first');
      turnEnd.add(last);
      if (called.length === 1) turnEnd.add(first);
    },
  };
  turnEnd.add(first);
  await Promise.resolve();
  assert.equal(called, ['first', 'last', 'first', 'last']);
});

test.run();
