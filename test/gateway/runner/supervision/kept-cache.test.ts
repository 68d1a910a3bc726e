import { pbkdf2 } from 'node:crypto';
import { fstatSync, openSync } from 'node:fs';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { KvMemory } from '../../../../gateway/runner/process/kv-memory.ts';
import { KeptCache, maxDyingMs, whyDistrusted } from '../../../../gateway/runner/supervision/kept-cache.ts';
import { deathBy } from '../../../fixtures/death.ts';

const test = suite('kept cache');

const command = { file: 'runner', args: ['serve'], kvKey: 'key' };
const killed = deathBy({ signal: 'SIGKILL' });
const fruitless = deathBy({ signal: 'SIGKILL', hasTokens: false });

/** Caches whose memory is made when `settle` is called. Nobody closes it: the numbers are of no open descriptors. */
function keptCaches(numPlaces: number) {
  const dropped: string[] = [];
  const released: [place: number, descriptor: number][] = [];
  const settling: ((error: Error | undefined) => void)[] = [];
  let numMade = 0;
  const make = () =>
    new Promise<KvMemory>((resolve, reject) => {
      const own = 10_000 + ++numMade;
      settling.push((error) =>
        error === undefined ? resolve({ own, reader: own + 10_000 }) : reject(error),
      );
    });
  const caches = KeptCache.ofPlaces(
    numPlaces,
    {
      onDropped: (_, reason) => dropped.push(reason),
      onReleased: (...which) => released.push(which),
    },
    make,
  );
  const settle = (error?: Error) => {
    for (const each of settling.splice(0)) each(error);
  };
  /** The descriptors that the next runner in a place gets, once its memory is made. */
  const next = async (place: number) => {
    let isStarted = false;
    const start = () => {
      isStarted = true;
    };
    if (cacheOf(place).wait(command, start) === undefined) start();
    // It is made when what was there before is freed.
    while (!isStarted) {
      settle();
      await new Promise(setImmediate);
    }
    return cacheOf(place).passTo(command);
  };
  const cacheOf = (place: number) => caches[place] as KeptCache;
  return { cacheOf, dropped, released, numMade: () => numMade, settle, next };
}

function keptCache() {
  const { cacheOf, ...others } = keptCaches(1);
  return { cache: cacheOf(0), ...others };
}

async function readyCache() {
  const { cache, dropped, numMade, next } = keptCache();
  const nextDescriptor = async () => {
    const { args, descriptors } = await next(0);
    assert.equal(args, ['serve', '--kv-fd', '3']);
    return descriptors?.[0];
  };
  return { cache, dropped, numMade, next: nextDescriptor };
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
  const next = new Promise<void>((resolve) => cache.wait(command, resolve));
  settle();
  await next;
  assert.equal(cache.passTo(command).descriptors, [10_002], 'the next start tries again');
});

test('memory that could not be made before the end is not in the log', async () => {
  const { cache, dropped, settle } = keptCache();
  cache.wait(command, () => {});
  cache.close();
  settle(new Error('It was killed.'));
  await new Promise(setImmediate);
  assert.equal(dropped, []);
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
  const maybeWrong = [deathBy({ signal: 'SIGSYS' }), deathBy({ signal: 'SIGKILL', verdict: violation })];
  for (const death of maybeWrong) assert.is(whyDistrusted(death, 10, false)?.mayBeWrong, true);
  assert.is(whyDistrusted(killed, maxDyingMs + 1, false)?.mayBeWrong, true);
  assert.is(whyDistrusted(fruitless, 10, true)?.mayBeWrong, true);
  const onlyGone = [deathBy({ signal: 'SIGKILL', isOutOfMemory: true }), deathBy({ code: 75 })];
  for (const death of onlyGone) assert.is(whyDistrusted(death, 10, false)?.mayBeWrong, false);
  const hung = { kind: 'hung', sentence: 'It hung.' } as const;
  const trusted = [killed, deathBy({ signal: 'SIGABRT', verdict: hung }), deathBy({ code: 0 })];
  for (const death of trusted) assert.is(whyDistrusted(death, maxDyingMs, true), undefined);
  assert.is(whyDistrusted(fruitless, 10, false), undefined);
  const notStarted = deathBy({ spawnError: 'no descriptors', hasTokens: false });
  assert.is(whyDistrusted(notStarted, 10, true), undefined, 'no process has had the memory');
  const tooLittle = deathBy({ code: 71, readyForMs: undefined, hasTokens: false });
  assert.equal(whyDistrusted(tooLittle, 10, true), { reason: 'Memory ran out.', mayBeWrong: false });
});

test('a runner that was told to end for the next one leaves it what it has computed, however long that took', async () => {
  const { cache, dropped, next } = await readyCache();
  for (let start = 0; start < 3; start += 1) {
    assert.is(await next(), 10_001);
    cache.onDied(deathBy({ code: 0, hasTokens: false }), maxDyingMs + 1, true);
  }
  cache.onDied(deathBy({ signal: 'SIGKILL' }), maxDyingMs + 1, true);
  assert.equal(dropped, ['The runner took too long to end.']);
});

test('the next runner begins with nothing if it has another key; memory that nobody has used is not dropped', async () => {
  const { cache, dropped, next } = await readyCache();
  const isReadyFor = (kvKey: string) => cache.wait({ ...command, kvKey }, () => {}) === undefined;
  assert.is(await next(), 10_001);
  assert.is(isReadyFor('key'), true);
  assert.equal(dropped, []);
  assert.is(isReadyFor('other'), false);
  assert.is(isReadyFor('other'), false);
  assert.equal(dropped, ['The next runner has other settings.']);
  assert.is(await next(), 10_002);
  assert.is(
    cache.wait({ file: 'cuda-runner', args: [] }, () => {}),
    undefined,
  );
  assert.is(dropped.length, 2, 'a runner of another kind');
});

/** Gives the threads that close files something to do before, as freeing gigabytes would. */
function delayClosing(): void {
  const numThreads = Number(process.env.UV_THREADPOOL_SIZE ?? 4);
  for (let thread = 0; thread < numThreads; thread += 1) pbkdf2('', '', 50_000, 64, 'sha512', () => {});
}

test('memory is made anew when the system has freed the one before, for which closing waits too', async () => {
  const made: KvMemory[] = [];
  const isOpen = ({ own, reader }: KvMemory): boolean =>
    [own, reader].some((descriptor) => {
      try {
        return fstatSync(descriptor).isCharacterDevice();
      } catch {
        return false;
      }
    });
  const numOpen = () => made.filter(isOpen).length;
  const numOpenBefore: number[] = [];
  const make = async (): Promise<KvMemory> => {
    numOpenBefore.push(numOpen());
    const memory = { own: openSync('/dev/null', 'r'), reader: openSync('/dev/null', 'r') };
    made.splice(0, 1, memory);
    return memory;
  };
  const [cache] = KeptCache.ofPlaces(1, { onDropped: () => {}, onReleased: () => {} }, make);
  assert.ok(cache);
  for (let start = 0; start < 3; start += 1) {
    await new Promise<void>((resolve) => cache.wait(command, resolve));
    cache.passTo(command);
    if (start < 2) {
      delayClosing();
      cache.onDied(deathBy({ code: 75 }), 10);
    }
  }
  assert.equal(numOpenBefore, [0, 0, 0]);
  assert.is(numOpen(), 1);
  delayClosing();
  await cache.close();
  assert.is(numOpen(), 0);
});

test('memory that is made when the pool has stopped is given back', async () => {
  const { cache, settle } = keptCache();
  const started = new Promise<void>((resolve) => cache.wait(command, resolve));
  cache.close();
  settle();
  await started;
  assert.is(cache.passTo(command), command);
});

test('a runner is given the memory of its place, and that of others to read; no runner starts before all is made', async () => {
  const { cacheOf, numMade, next } = keptCaches(3);
  const passed = await next(1);
  assert.is(numMade(), 3);
  assert.equal(passed.args, ['serve', '--kv-fd', '3', '--kv-from', '4', '--kv-from', '5']);
  assert.equal(passed.descriptors, [10_002, 20_001, 20_003]);
  assert.equal(cacheOf(1).descriptorsOf([2, 0]), [5, 4]);
  assert.equal(cacheOf(1).descriptorsOf([1]), [], 'a runner looks into its own cache anyway');
  assert.equal(cacheOf(0).descriptorsOf([2, 1]), [], 'it was not started yet');
});

test('a memory that is not trusted is read by nobody any more: other runners let go of it and are not sent there', async () => {
  const { cacheOf, released, dropped, next } = keptCaches(3);
  for (const place of [0, 1, 2]) await next(place);
  cacheOf(0).onDied(deathBy({ signal: 'SIGSYS' }), 10);
  assert.equal(dropped, ['The runner did what none may do.']);
  assert.equal(released, [
    [1, 4],
    [2, 4],
  ]);
  assert.equal(cacheOf(1).descriptorsOf([0, 2]), [5]);
  assert.equal(cacheOf(2).descriptorsOf([0, 1]), [5]);
});

test('the new memory of a place is read by the runners that start after it', async () => {
  const { cacheOf, released, next } = keptCaches(2);
  for (const place of [0, 1]) await next(place);
  cacheOf(0).onDied(deathBy({ signal: 'SIGKILL', isOutOfMemory: true }), 10);
  released.length = 0;
  await next(0);
  assert.equal(cacheOf(0).descriptorsOf([1]), [4]);
  assert.equal(cacheOf(1).descriptorsOf([0]), [], 'this runner has only the old memory');
  cacheOf(0).onDied(deathBy({ signal: 'SIGKILL', isOutOfMemory: true }), 10);
  assert.equal(released, [], 'nobody else had it');
  await next(0);
  assert.equal((await next(1)).descriptors, [10_002, 20_004]);
  assert.equal(cacheOf(1).descriptorsOf([0]), [4]);
});

test('where memory cannot be made, runners are started without any', async () => {
  const { cacheOf, settle } = keptCaches(2);
  const started = new Promise<void>((resolve) => cacheOf(0).wait(command, resolve));
  settle(new Error('There is no memory.'));
  await started;
  assert.is(cacheOf(0).passTo(command), command);
  assert.equal(cacheOf(0).descriptorsOf([1]), []);
});

test.run();
