import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { KeptCache, maxDyingMs, whyDistrusted } from '../../../../gateway/runner/supervision/kept-cache.ts';
import { deathBy } from '../../../fixtures/death.ts';

const test = suite('kept cache');

const command = { file: 'runner', args: ['serve'], keepsKv: true };
const killed = deathBy({ signal: 'SIGKILL' });
const fruitless = deathBy({ signal: 'SIGKILL', hasTokens: false });

/** A cache whose memory is made when `settle` is called. Nobody closes it: the number is of no open descriptor. */
function keptCache() {
  const dropped: string[] = [];
  let numMade = 0;
  let settle = (_: Error | undefined): void => {};
  const make = () =>
    new Promise<number>((resolve, reject) => {
      numMade += 1;
      settle = (error) => (error === undefined ? resolve(10_000 + numMade) : reject(error));
    });
  const cache = new KeptCache((reason) => dropped.push(reason), make);
  return { cache, dropped, numMade: () => numMade, settle: (error?: Error) => settle(error) };
}

async function readyCache() {
  const { cache, dropped, numMade, settle } = keptCache();
  /** The descriptor that the next runner gets, once its memory is made. */
  const next = async () => {
    const started = new Promise<void>((resolve) => {
      if (cache.wait(command, resolve) === undefined) resolve();
    });
    settle();
    await started;
    const { args, descriptors } = cache.passTo(command);
    assert.equal(args, ['serve', '--kv-fd', '3']);
    return descriptors?.[0];
  };
  return { cache, dropped, numMade, next };
}

test('a start waits until the memory is made, unless it is cancelled', async () => {
  const { cache, numMade, settle } = keptCache();
  let numStarts = 0;
  const started = new Promise<void>((resolve) => cache.wait(command, () => resolve(void numStarts++)));
  cache.wait(command, () => (numStarts += 100))?.cancel();
  assert.is(numStarts, 0);
  settle();
  await started;
  assert.is(numStarts, 1);
  assert.is(numMade(), 1);
  assert.is(
    cache.wait(command, () => {}),
    undefined,
  );
  assert.equal(cache.passTo(command).descriptors, [10_001]);
});

test('a runner that keeps nothing is started by its own command, at once', () => {
  const { cache, numMade } = keptCache();
  const other = { file: 'runner', args: ['serve'] };
  assert.is(
    cache.wait(other, () => {}),
    undefined,
  );
  assert.is(cache.passTo(other), other);
  assert.is(numMade(), 0);
});

test('without memory runners are started all the same, and the log says why', async () => {
  const { cache, dropped, settle } = keptCache();
  const started = new Promise<void>((resolve) => cache.wait(command, resolve));
  settle(new Error('There is no memory.'));
  await started;
  assert.is(
    cache.wait(command, () => {}),
    undefined,
  );
  assert.is(cache.passTo(command), command);
  assert.equal(dropped, ['There is no memory.']);
});

test('the next runner takes over, whatever has killed the last one once', async () => {
  for (const death of [killed, fruitless, deathBy({ signal: 'SIGSEGV' }), deathBy({ code: 70 })]) {
    const { cache, dropped, next } = await readyCache();
    assert.is(await next(), 10_001);
    cache.onDied(death, 10);
    assert.is(await next(), 10_001);
    assert.equal(dropped, []);
  }
});

test('after a second death without a new token the memory is new, and then it is kept again', async () => {
  const { cache, dropped, next } = await readyCache();
  await next();
  cache.onDied(fruitless, 10);
  await next();
  cache.onDied(fruitless, 10);
  assert.is(await next(), 10_002);
  assert.equal(dropped, ['The runner ended before it had a new token, like the one before it.']);
  cache.onDied(fruitless, 10);
  assert.is(await next(), 10_002);
  cache.onDied(killed, 10);
  assert.is(await next(), 10_002);
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

test('memory that nobody has used is not dropped', async () => {
  const { cache, dropped, next } = await readyCache();
  cache.distrust('Its runner is replaced.');
  assert.is(await next(), 10_001);
  cache.distrust('Its runner is replaced.');
  cache.distrust('Its runner is replaced.');
  assert.is(await next(), 10_002);
  assert.equal(dropped, ['Its runner is replaced.']);
});

test('memory that is made when the pool has stopped is given back', async () => {
  const { cache, settle } = keptCache();
  const started = new Promise<void>((resolve) => cache.wait(command, resolve));
  cache.close();
  settle();
  await started;
  assert.is(cache.passTo(command), command);
});

test.run();
