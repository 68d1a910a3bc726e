import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { idleFor, type Resident, roomFor } from '../../../gateway/models/memory-budget.ts';
import { Random } from '../../fixtures/random.ts';

const test = suite('memory budget');

function resident(name: string, bytes: number, more: Partial<Resident> = {}): Resident {
  const calm = { isBusy: false, isYielding: false, isLeaving: false, isPinned: false };
  return { name, bytes, lastUsedMs: 0, isUnloadRequested: false, ...calm, ...more };
}

function leaving(bytes: number, budget: number, residents: readonly Resident[]): readonly string[] {
  const room = roomFor({ name: 'wanted', bytes }, budget, residents);
  assert.not.type(room, 'string');
  return (room as readonly Resident[]).map(({ name }) => name);
}

test('a model that fits beside the others evicts none', () => {
  assert.equal(leaving(40, 100, [resident('a', 60)]), []);
  assert.equal(leaving(41, 100, [resident('a', 60)]), ['a']);
});

test('the least recently used leaves first, and one that is used only where the others are not enough', () => {
  const residents = [
    resident('busy', 40, { lastUsedMs: 1, isBusy: true }),
    resident('new', 30, { lastUsedMs: 9 }),
    resident('old', 30, { lastUsedMs: 5 }),
  ];
  assert.equal(leaving(30, 100, residents), ['old']);
  assert.equal(leaving(60, 100, residents), ['old', 'new']);
  assert.equal(leaving(75, 100, residents), ['old', 'new', 'busy']);
});

test('one that only the background uses leaves as one that nobody uses', () => {
  const residents = [
    resident('idle', 40, { lastUsedMs: 5 }),
    resident('busy', 40, { lastUsedMs: 1, isBusy: true }),
    resident('yielding', 20, { lastUsedMs: 3, isBusy: true, isYielding: true }),
  ];
  assert.equal(leaving(20, 100, residents), ['yielding']);
  assert.equal(leaving(60, 100, residents), ['yielding', 'idle']);
});

test('a model already leaving counts first, and no model is evicted needlessly', () => {
  const going = resident('going', 50, { isLeaving: true, isBusy: true, lastUsedMs: 9 });
  assert.equal(leaving(50, 100, [resident('idle', 50), going]), ['going']);
  const [small, large] = [resident('small', 10), resident('large', 90, { lastUsedMs: 5 })];
  assert.equal(leaving(90, 100, [small, large]), ['large']);
});

test('a model that cannot fit is refused with figures, less pinned models', () => {
  const told = roomFor({ name: 'huge', bytes: 101 }, 100, []);
  assert.match(String(told), 'The model huge needs 101 bytes of memory; all models together may use 100;');
  const pinned = resident('pinned', 60, { isPinned: true });
  const beside = roomFor({ name: 'large', bytes: 41 }, 100, [pinned]);
  assert.match(
    String(beside),
    'needs 41 bytes of memory; all models together may use 100, and pinned models use 60 of that;',
  );
  assert.equal(leaving(40, 100, [pinned]), []);
});

test('a pinned model that was removed makes room like any other that leaves', () => {
  const removed = resident('removed', 60, { isPinned: true, isLeaving: true });
  assert.equal(leaving(41, 100, [removed, resident('idle', 30)]), ['removed']);
});

test('whatever is there: what is wanted fits when those have left, and none that is pinned and stays has', () => {
  const random = new Random();
  console.log(`seed ${random.seed}`);
  for (let round = 0; round < 2000; round += 1) {
    const budget = 1 + random.below(200);
    const residents = Array.from({ length: random.below(8) }, (_, index) =>
      resident(`${index}`, random.below(60), {
        lastUsedMs: random.below(100),
        isBusy: random.below(2) === 0,
        isLeaving: random.below(4) === 0,
        isPinned: random.below(5) === 0,
      }),
    );
    const wanted = { name: 'wanted', bytes: random.below(120) };
    const room = roomFor(wanted, budget, residents);
    const stays = ({ isPinned, isLeaving }: Resident): boolean => isPinned && !isLeaving;
    const pinned = residents.filter(stays).reduce((sum, { bytes }) => sum + bytes, 0);
    assert.is(
      typeof room === 'string',
      wanted.bytes > budget - pinned,
      `seed ${random.seed}, round ${round}`,
    );
    if (typeof room === 'string') continue;
    const left = residents.filter((each) => !room.includes(each)).reduce((sum, { bytes }) => sum + bytes, 0);
    assert.ok(room.length === 0 || left + wanted.bytes <= budget, `seed ${random.seed}, round ${round}`);
    assert.not.ok(room.some(stays));
  }
});

test('those are idle that nobody has used for so long; one that is used, pinned or leaves is not', () => {
  const residents = [
    resident('idle', 1, { lastUsedMs: 100 }),
    resident('recent', 1, { lastUsedMs: 101 }),
    resident('busy', 1, { isBusy: true }),
    resident('pinned', 1, { isPinned: true }),
    resident('leaving', 1, { isLeaving: true }),
  ];
  assert.equal(
    idleFor(residents, 900, 1000).map(({ name }) => name),
    ['idle'],
  );
});

test.run();
