import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { SharedLimit } from '../../../gateway/system/fair-shares.ts';
import { callerNamed } from '../../fixtures/keys.ts';
import { Random } from '../../fixtures/random.ts';

const test = suite('shared limit');

const a = callerNamed('a');
const b = callerNamed('b');

test('a caller that is alone may hold everything, and no more', () => {
  const limit = new SharedLimit(10);
  assert.ok(limit.hasRoom(a, 10));
  assert.not.ok(limit.hasRoom(a, 11));
  limit.hold(a, 10);
  assert.not.ok(limit.hasRoom(a, 1));
  limit.release(a, 4);
  assert.ok(limit.hasRoom(a, 4));
  assert.not.ok(limit.hasRoom(a, 4, 1), 'what is nobody’s counts too');
});

test('a caller gets its share even when another one holds everything', () => {
  const limit = new SharedLimit(12);
  limit.hold(a, 12);
  const twice = callerNamed('twice', { shares: 2 });
  assert.ok(limit.hasRoom(b, 6));
  assert.not.ok(limit.hasRoom(b, 7));
  assert.ok(limit.hasRoom(twice, 8));
  limit.hold(b, 6);
  assert.not.ok(limit.hasRoom(b, 1));
  assert.ok(limit.hasRoom(callerNamed('c'), 4), 'a third of it for a third caller');
  limit.release(a, 12);
  assert.ok(limit.hasRoom(a, 6), 'what was beyond the limit is not used up');
});

test('callers that come one after the other get their shares up to the ceiling, and no more', () => {
  const limit = new SharedLimit(12);
  for (const [name, amount] of [
    ['a', 12],
    ['b', 6],
    ['c', 4],
  ] as const) {
    assert.ok(limit.hasRoom(callerNamed(name), amount), name);
    limit.hold(callerNamed(name), amount);
  }
  assert.ok(limit.hasRoom(callerNamed('d'), 2));
  assert.not.ok(limit.hasRoom(callerNamed('d'), 3), 'its share, but beyond twice the limit');
});

test('random callers never hold more than the ceiling, and one within its share is refused only by it', () => {
  const random = new Random(3);
  const limit = new SharedLimit(100);
  const callers = Array.from({ length: 5 }, (_, i) => callerNamed(`${i}`, { shares: 1 + (i % 3) }));
  const held: { caller: (typeof callers)[number]; amount: number }[] = [];
  for (let i = 0; i < 20_000; i++) {
    const caller = random.pick(callers);
    const amount = 1 + random.below(30);
    const active = callers.filter((each) => each === caller || limit.heldBy(each) > 0);
    const share = (100 * caller.shares) / active.reduce((sum, { shares }) => sum + shares, 0);
    const hasRoom = limit.hasRoom(caller, amount);
    if (limit.heldBy(caller) + amount <= share && limit.total + amount <= 200) assert.ok(hasRoom);
    if (hasRoom) {
      limit.hold(caller, amount);
      held.push({ caller, amount });
    }
    assert.ok(limit.total <= 200);
    if (held.length > 0 && random.below(2) === 0) {
      const [gone] = held.splice(random.below(held.length), 1);
      if (gone !== undefined) limit.release(gone.caller, gone.amount);
    }
  }
  for (const { caller, amount } of held) limit.release(caller, amount);
  assert.equal([limit.total, limit.numCallers], [0, 0]);
});

test.run();
