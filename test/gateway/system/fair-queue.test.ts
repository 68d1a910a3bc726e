import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { Caller } from '../../../gateway/system/caller.ts';
import { FairQueue, type QueueItem } from '../../../gateway/system/fair-shares.ts';
import { callerNamed } from '../../fixtures/keys.ts';
import { Random } from '../../fixtures/random.ts';

const test = suite('fair queue');

interface Item extends QueueItem {
  readonly id: string;
}

const a = callerNamed('a');
const b = callerNamed('b');

let arrivals = 0;

function put(queue: FairQueue<Item>, id: string, caller: Caller, change: Partial<Item> = {}): Item {
  const item = { id, caller, priority: 0, cost: 1, ...change };
  queue.add(item, arrivals++);
  return item;
}

function takeAll(queue: FairQueue<Item>): string[] {
  const ids: string[] = [];
  for (let item = queue.take(); item !== undefined; item = queue.take()) ids.push(item.id);
  return ids;
}

test('one caller’s items come in the order of priority, then of arrival', () => {
  const queue = new FairQueue<Item>(10);
  put(queue, 'second', a);
  put(queue, 'third', a);
  put(queue, 'last', a, { priority: 1 });
  put(queue, 'first', a, { priority: -1 });
  assert.equal(takeAll(queue), ['first', 'second', 'third', 'last']);
});

test('an item that comes back finds its place again', () => {
  const queue = new FairQueue<Item>(10);
  const first = put(queue, 'first', a);
  put(queue, 'second', a);
  const order = arrivals - 2;
  assert.is(queue.take(), first);
  queue.add(first, order);
  assert.equal(takeAll(queue), ['first', 'second']);
});

test('a priority is within a caller and gains nothing against others', () => {
  const queue = new FairQueue<Item>(10);
  for (const id of ['a1', 'a2', 'a3']) put(queue, id, a, { priority: -5, cost: 2 });
  for (const id of ['b1', 'b2', 'b3']) put(queue, id, b, { priority: 5, cost: 2 });
  assert.equal(takeAll(queue), ['a1', 'b1', 'a2', 'b2', 'a3', 'b3']);
});

test('callers whose lines never end get work in proportion to their shares, whatever the pieces cost', () => {
  const random = new Random(7);
  const callers = [callerNamed('small'), callerNamed('large', { shares: 3 }), callerNamed('other')];
  const costs: Record<string, () => number> = {
    small: () => 1 + random.below(20),
    large: () => 1 + random.below(9000),
    other: () => 700,
  };
  const queue = new FairQueue<Item>(1000);
  const add = (caller: Caller) => put(queue, caller.name, caller, { cost: costs[caller.name]?.() ?? 0 });
  // The greedy caller's line is much longer, which must gain it nothing.
  for (let i = 0; i < 500; i++) add(callers[1] as Caller);
  for (const caller of callers) for (let i = 0; i < 3; i++) add(caller);
  const got = new Map<string, number>();
  for (let i = 0; i < 20_000; i++) {
    const item = queue.take() as Item;
    got.set(item.id, (got.get(item.id) ?? 0) + item.cost);
    add(item.caller);
  }
  const perShare = callers.map(({ name, shares }) => (got.get(name) ?? 0) / shares);
  const [least, most] = [Math.min(...perShare), Math.max(...perShare)];
  assert.ok(least > 0 && most - least <= 2 * 9000, `${perShare}`);
});

test('a caller that took everything while it was alone owes nothing to one that comes later', () => {
  const queue = new FairQueue<Item>(100);
  for (let i = 0; i < 20; i++) put(queue, 'a', a, { cost: 1000 });
  for (let i = 0; i < 10; i++) queue.take();
  for (let i = 0; i < 10; i++) put(queue, 'b', b, { cost: 1000 });
  const order = takeAll(queue);
  const firstHalf = order.slice(0, 10).filter((id) => id === 'a').length;
  assert.ok(firstHalf >= 4 && firstHalf <= 6, order.join(''));
});

test('callers that hold the least for each share come first, and only what fits is taken', () => {
  const queue = new FairQueue<Item>(10);
  const twice = callerNamed('twice', { shares: 2 });
  for (const caller of [a, b, twice]) put(queue, caller.name, caller);
  const held = new Map([
    ['a', 3],
    ['b', 2],
    ['twice', 3],
  ]);
  const choice = { held: ({ name }: Caller) => held.get(name) ?? 0 };
  assert.is(queue.take({ ...choice, fits: ({ id }) => id !== 'twice' })?.id, 'b');
  assert.is(queue.take(choice)?.id, 'twice');
  assert.is(queue.take({ ...choice, fits: () => false }), undefined);
  assert.is(queue.take(choice)?.id, 'a');
});

test('a deleted item is not taken, and a full queue takes none', () => {
  const queue = new FairQueue<Item>(2);
  const first = put(queue, 'first', a);
  put(queue, 'second', b);
  assert.throws(() => put(queue, 'third', a), /has 2 items, its limit/);
  queue.delete(first);
  queue.delete(first);
  assert.equal([queue.size, queue.has(first), [...queue].map(({ id }) => id)], [1, false, ['second']]);
  assert.equal(takeAll(queue), ['second']);
});

test.run();
