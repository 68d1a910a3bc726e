import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { KeptCaches, maxDyingMs, whyDistrusted } from '../../../../gateway/runner/supervision/kept-caches.ts';
import { deathBy } from '../../../fixtures/death.ts';

const test = suite('kept caches');

const command = { file: 'runner', args: ['serve'], keepsKv: true };
const killed = deathBy({ signal: 'SIGKILL' });
const fruitless = deathBy({ signal: 'SIGKILL', hasTokens: false });

/** Caches whose memory is made when `settle` is called. Nobody closes them: the numbers are of no open descriptors. */
function cachesOf(numPlaces: number) {
  const dropped: string[] = [];
  const asked: number[] = [];
  let settle = (_: readonly number[] | Error): void => {};
  const made = new Promise<readonly number[]>((resolve, reject) => {
    settle = (outcome) => (outcome instanceof Error ? reject(outcome) : resolve(outcome));
  });
  const make = (_: string, count: number) => {
    asked.push(count);
    return made;
  };
  const caches = new KeptCaches(numPlaces, (place, reason) => dropped.push(`${place}: ${reason}`), make);
  const descriptors = Array.from({ length: numPlaces }, (_, index) => 10_000 + index);
  return { caches, dropped, asked, settle: () => settle(descriptors), fail: (error: Error) => settle(error) };
}

async function readyPlace() {
  const { caches, dropped, settle } = cachesOf(1);
  const place = caches.place(0);
  const started = new Promise<void>((resolve) => place.wait(command, resolve));
  settle();
  await started;
  return { place, dropped, argsOfNext: () => place.passTo(command).args.slice(1).join(' ') };
}

test('the first start of each place waits until the memory for all of them is made', async () => {
  const { caches, asked, settle } = cachesOf(2);
  const places = [caches.place(0), caches.place(1)] as const;
  let numStarts = 0;
  const started = Promise.all(
    places.map(
      (place) => new Promise<void>((resolve) => place.wait(command, () => resolve(void numStarts++))),
    ),
  );
  const left = places[0].wait(command, () => (numStarts += 100));
  left?.cancel();
  assert.is(numStarts, 0);
  settle();
  await started;
  assert.is(numStarts, 2);
  assert.equal(asked, [2]);
  assert.is(
    places[0].wait(command, () => {}),
    undefined,
  );
  assert.equal(places[1].passTo(command).descriptors, [10_001]);
});

test('a runner that keeps nothing is started by its own command, at once', () => {
  const { caches, asked } = cachesOf(1);
  const place = caches.place(0);
  const other = { file: 'runner', args: ['serve'] };
  assert.is(
    place.wait(other, () => {}),
    undefined,
  );
  assert.is(place.passTo(other), other);
  assert.equal(asked, []);
});

test('without memory runners are started all the same, and the log says why', async () => {
  const { caches, dropped, fail } = cachesOf(1);
  const place = caches.place(0);
  const started = new Promise<void>((resolve) => place.wait(command, resolve));
  fail(new Error('There is no memory.'));
  await started;
  assert.is(
    place.wait(command, () => {}),
    undefined,
  );
  assert.is(place.passTo(command), command);
  assert.equal(dropped, ['0: There is no memory.']);
});

test('the next runner takes over, whatever has killed the last one once', async () => {
  for (const death of [killed, fruitless, deathBy({ signal: 'SIGSEGV' }), deathBy({ code: 70 })]) {
    const { place, dropped, argsOfNext } = await readyPlace();
    assert.is(argsOfNext(), '--kv-fd 3');
    place.onDied(death, 10);
    assert.is(argsOfNext(), '--kv-fd 3');
    assert.equal(dropped, []);
  }
});

test('after a second death without a new token the cache is empty, and then it is kept again', async () => {
  const { place, dropped, argsOfNext } = await readyPlace();
  argsOfNext();
  place.onDied(fruitless, 10);
  argsOfNext();
  place.onDied(fruitless, 10);
  assert.is(argsOfNext(), '--kv-fd 3 --clear-kv');
  assert.equal(dropped, ['0: The runner ended before it had a new token, like the one before it.']);
  place.onDied(fruitless, 10);
  assert.is(argsOfNext(), '--kv-fd 3');
  place.onDied(killed, 10);
  assert.is(argsOfNext(), '--kv-fd 3');
});

test('nothing is taken over from a runner that may have written what it liked, or whose memory must be free', () => {
  const violation = { kind: 'violation', sentence: 'It lied.' } as const;
  const distrusted = [
    deathBy({ signal: 'SIGSYS' }),
    deathBy({ signal: 'SIGKILL', verdict: violation }),
    deathBy({ signal: 'SIGKILL', isOutOfMemory: true }),
    deathBy({ code: 75 }),
  ];
  for (const death of distrusted) assert.type(whyDistrusted(death, 10, false), 'string');
  assert.type(whyDistrusted(killed, maxDyingMs + 1, false), 'string');
  const hung = { kind: 'hung', sentence: 'It hung.' } as const;
  const trusted = [killed, deathBy({ signal: 'SIGABRT', verdict: hung }), deathBy({ code: 0 })];
  for (const death of trusted) assert.is(whyDistrusted(death, maxDyingMs, true), undefined);
  assert.is(whyDistrusted(fruitless, 10, false), undefined);
});

test('a place whose memory nobody has used has nothing to drop', async () => {
  const { place, dropped, argsOfNext } = await readyPlace();
  place.distrust('Its runner is replaced.');
  assert.is(argsOfNext(), '--kv-fd 3');
  place.distrust('Its runner is replaced.');
  place.distrust('Its runner is replaced.');
  assert.is(argsOfNext(), '--kv-fd 3 --clear-kv');
  assert.equal(dropped, ['0: Its runner is replaced.']);
});

test.run();
