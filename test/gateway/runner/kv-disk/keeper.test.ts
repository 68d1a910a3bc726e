/** The keeper between runners' memory and the file: the test computes texts as runners do, and takes blocks as they do. */
import { closeSync, openSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { BlockFile } from '../../../../gateway/runner/kv-disk/block-file.ts';
import { partsOf } from '../../../../gateway/runner/kv-disk/file-records.ts';
import type { IndexEntry } from '../../../../gateway/runner/kv-disk/index-layout.ts';
import { Keeper, maxRoomWaitMs } from '../../../../gateway/runner/kv-disk/keeper.ts';
import type { FromKeeper } from '../../../../gateway/runner/kv-disk/messages.ts';
import {
  FakePlace,
  FakeStaging,
  groupedShape,
  hash64,
  identity,
  placeShape,
} from '../../../fixtures/kv-places.ts';
import { temporaryFolder } from '../../../fixtures/temporary-folder.ts';
import { VirtualClock } from '../../../fixtures/virtual-clock.ts';

const test = suite('keeper');
const folder = temporaryFolder();
const SECRET = Buffer.alloc(32, 7);
const FILE_BYTES = 2 ** 20;
const POOL = 1;
let numFiles = 0;

const textOf = (first: number, numBlocks: number): number[] =>
  Array.from({ length: numBlocks * 8 }, (_, index) => first + index);
const idsUpTo = (count: number, first = 0): number[] =>
  Array.from({ length: count }, (_, index) => first + index);

/** A keeper with a pool of so many places. path: of a file that an earlier keeper may have written. */
async function keeping({
  numPlaces = 1,
  shape = placeShape,
  path = join(folder.path, `kept-${++numFiles}`),
} = {}) {
  const told: FromKeeper[] = [];
  const clock = new VirtualClock();
  const file = await BlockFile.open(path, FILE_BYTES, SECRET);
  const keeper = new Keeper(file, hash64, (message) => told.push(message), clock);
  const staging = new FakeStaging();
  await keeper.handle({ type: 'staging', pool: POOL, memory: staging.memory });
  await keeper.handle({ type: 'model', pool: POOL, identity });
  const places: FakePlace[] = [];
  const replace = async (place: number): Promise<void> => {
    const next = new FakePlace(shape);
    places[place] = next;
    await keeper.handle({ type: 'place', pool: POOL, place, memory: next.memory });
  };
  for (let place = 0; place < numPlaces; place += 1) await replace(place);
  let numLoads = 0;
  /** Loads the text and one token more, as the next one needs the last one. */
  const load = async (ids: readonly number[], salt = '') => {
    const number = ++numLoads;
    await keeper.handle({
      type: 'load',
      number,
      pool: POOL,
      ids: Uint32Array.from([...ids, 7]),
      salt: Buffer.from(salt),
    });
    const answer = told.find((message) => message.type === 'loaded' && message.number === number);
    assert.ok(answer?.type === 'loaded');
    return { number, numBlocks: answer.numBlocks, places: answer.places };
  };
  return {
    ...{ keeper, told, clock, staging, path, replace, load },
    place: (index = 0) => places[index] as FakePlace,
    save: () => keeper.handle({ type: 'save', pool: POOL }),
    setModel: (of: string) => keeper.handle({ type: 'model', pool: POOL, identity: of }),
    release: (number: number) => keeper.handle({ type: 'release', number, pool: POOL }),
    /** The keeper's process ends. */
    end: async () => {
      await keeper.saveAll();
      file.close();
    },
  };
}

test('what a runner has computed, a later process gives to the next one', async () => {
  const text = textOf(1, 4);
  const first = await keeping();
  first.place().compute(text, [3, 1, 2, 0]);
  await first.save();
  assert.is(first.keeper.figures.numSaved, 4);
  await first.save();
  assert.is(first.keeper.figures.numSaved, 4, 'a block is written once');
  await first.end();
  const next = await keeping({ path: first.path });
  const { numBlocks, places } = await next.load(text);
  assert.is(numBlocks, 4);
  assert.equal(places, []);
  assert.is(next.staging.taken(text), 4);
  assert.is(next.keeper.figures.numLoaded, 4);
});

test('a text is found as far as it is there, and only with its salt', async () => {
  const { place, save, replace, load, staging } = await keeping();
  const text = textOf(1, 3);
  place().compute(text, [0, 1, 2], 'a tenant');
  await save();
  await replace(0);
  assert.is((await load(text)).numBlocks, 0);
  assert.is((await load(text, 'another')).numBlocks, 0);
  const longer = [...text.slice(0, 16), ...textOf(500, 2)];
  assert.is((await load(longer, 'a tenant')).numBlocks, 2);
  assert.is(staging.taken(longer, 0, 'a tenant'), 2);
});

test('of what the runner has itself nothing is read', async () => {
  const { place, save, replace, load, staging } = await keeping();
  const text = textOf(1, 4);
  place().compute(text, [0, 1, 2, 3]);
  await save();
  assert.equal(await load(text), { number: 1, numBlocks: 0, places: [] });
  await replace(0);
  place().compute(text.slice(0, 16), [5, 6]);
  await save();
  const { numBlocks, places } = await load(text);
  assert.is(numBlocks, 2);
  assert.equal(places, [0]);
  assert.is(staging.taken(text, 2), 2);
});

test('of several runners, the request is told of the one that has the most of its text', async () => {
  const { place, save, replace, load, staging } = await keeping({ numPlaces: 2 });
  const text = textOf(1, 4);
  place(0).compute(text, [0, 1, 2, 3]);
  await save();
  await replace(0);
  place(0).compute(text.slice(0, 8), [0]);
  place(1).compute(text.slice(0, 24), [0, 1, 2]);
  await save();
  const { numBlocks, places } = await load(text);
  assert.equal([numBlocks, places], [1, [1]]);
  assert.is(staging.taken(text, 3), 1);
});

test('what may be wrong is forgotten, and what other runners computed stays', async () => {
  const { keeper, place, save, load, path, end } = await keeping({ numPlaces: 2 });
  const [wrong, right] = [textOf(1, 2), textOf(100, 2)];
  place(0).compute(wrong, [0, 1]);
  place(1).compute(right, [0, 1]);
  await save();
  await keeper.handle({ type: 'no_place', pool: POOL, place: 0, isDistrusted: true });
  await keeper.handle({ type: 'no_place', pool: POOL, place: 1, isDistrusted: false });
  await keeper.handle({ type: 'place', pool: POOL, place: 0, memory: new FakePlace().memory });
  assert.is((await load(wrong)).numBlocks, 0);
  assert.is((await load(right)).numBlocks, 2);
  assert.is(keeper.figures.numDropped, 2);
  await end();
  const next = await keeping({ path });
  assert.is((await next.load(wrong)).numBlocks, 0);
  assert.is((await next.load(right)).numBlocks, 2);
});

test('what may be wrong is not taken back from caches that have read it', async () => {
  const { keeper, place, save, replace, load, path, end } = await keeping({ numPlaces: 2 });
  const [saved, unsaved, right] = [textOf(1, 2), textOf(100, 2), textOf(200, 1)];
  place(0).compute(saved, [0, 1]);
  await save();
  place(0).compute(unsaved, [2, 3]);
  for (const [index, text] of [saved, unsaved].entries()) place(1).compute(text, [2 * index, 2 * index + 1]);
  place(1).compute(right, [4]);
  await keeper.handle({ type: 'no_place', pool: POOL, place: 0, isDistrusted: true });
  await save();
  for (const id of idsUpTo(5)) place(1).use(id, 1n);
  await save();
  assert.is(keeper.figures.numBlocks, 1, 'of the text that nobody else has computed');
  await replace(0);
  assert.is((await load([...saved, ...textOf(300, 1)])).numBlocks, 0);
  await replace(1);
  for (const text of [saved, unsaved]) assert.is((await load(text)).numBlocks, 0);
  assert.is((await load(right)).numBlocks, 1);
  await end();
  const next = await keeping({ path });
  for (const text of [saved, unsaved]) assert.is((await next.load(text)).numBlocks, 0);
});

test('what may be wrong is not given from one cache to another', async () => {
  const { keeper, place, save, load } = await keeping({ numPlaces: 3 });
  const text = textOf(1, 2);
  for (const index of [0, 2]) place(index).compute(text, [0, 1]);
  place(1).compute(text.slice(0, 8), [0]);
  await save();
  place(2).invalidate(0);
  await save();
  await keeper.handle({ type: 'no_place', pool: POOL, place: 0, isDistrusted: true });
  assert.is((await load(text)).numBlocks, 0);
});

test('what may be wrong is taken from the memory in which runners find it', async () => {
  const { keeper, place, save, load, staging } = await keeping();
  const text = textOf(1, 2);
  place().compute(text, [0, 1]);
  await save();
  for (const id of [0, 1]) place().invalidate(id);
  await save();
  assert.is((await load(text)).numBlocks, 2);
  assert.is(staging.taken(text), 2);
  await keeper.handle({ type: 'no_place', pool: POOL, place: 0, isDistrusted: true });
  assert.is(staging.taken(text), 0);
  await keeper.handle({ type: 'place', pool: POOL, place: 0, memory: new FakePlace().memory });
  assert.is((await load(text)).numBlocks, 0);
});

test('of a cache that is older than the keeper, all may be wrong that earlier keepers have saved', async () => {
  const first = await keeping();
  const text = textOf(1, 2);
  first.place().compute(text, [0, 1]);
  await first.save();
  await first.end();
  const newer = await keeping({ path: first.path });
  await newer.keeper.handle({ type: 'no_place', pool: POOL, place: 0, isDistrusted: true });
  await newer.replace(0);
  assert.is((await newer.load(text)).numBlocks, 2);
  const { memory } = new FakePlace();
  await newer.keeper.handle({ type: 'place', pool: POOL, place: 0, memory, isOlder: true });
  await newer.keeper.handle({ type: 'no_place', pool: POOL, place: 0, isDistrusted: true });
  await newer.replace(0);
  assert.is((await newer.load(text)).numBlocks, 0);
});

test('where a cache was distrusted while there was no keeper, all may be wrong that earlier keepers have saved', async () => {
  const first = await keeping();
  const text = textOf(1, 2);
  first.place().compute(text, [0, 1]);
  await first.save();
  await first.end();
  const next = await keeping({ path: first.path });
  await next.keeper.handle({ type: 'distrust' });
  assert.equal([(await next.load(text)).numBlocks, next.keeper.figures.numDropped], [0, 2]);
});

test('a cache that says that it is of another model is left alone', async () => {
  const { keeper, place, save, setModel, load } = await keeping();
  place().compute(textOf(1, 2), [0, 1]);
  await setModel('another-model');
  await save();
  assert.is(keeper.figures.numSaved, 0);
  await setModel(identity);
  await save();
  assert.is(keeper.figures.numSaved, 0, 'what was looked at then is not looked at again');
  place().use(0, 1n);
  await save();
  assert.is(keeper.figures.numSaved, 1);
  assert.is((await load(textOf(1, 2))).numBlocks, 0);
});

test('a block that is used when it is among the oldest goes to the front', async () => {
  const { place, save, replace, load } = await keeping();
  const used = textOf(1, 1);
  place().compute(used, [0]);
  await save();
  const fill = async (first: number, numBlocks: number): Promise<void> => {
    for (let block = 0; block < numBlocks; block += 1) {
      place().compute(textOf(first + block * 1000, 1), [1]);
      await save();
    }
  };
  const numFitting = partsOf(FILE_BYTES).numRecords;
  await fill(1000, Math.floor(numFitting * 0.7));
  place().use(0, 1n);
  await save();
  await fill(1_000_000, Math.floor(numFitting * 0.7));
  await replace(0);
  assert.is((await load(used)).numBlocks, 1);
  assert.is((await load(textOf(1000, 1))).numBlocks, 0);
});

test('a block that stays in use stays in the file, whatever else is written', async () => {
  const { keeper, place, save, replace, load } = await keeping();
  const used = textOf(1, 1);
  place().compute(used, [0]);
  // Each fills a part of the ring.
  for (let turn = 1; turn < 40; turn += 1) {
    place().compute(textOf(turn * 1000, 15), idsUpTo(15, 1));
    place().use(0, BigInt(turn));
    await save();
  }
  assert.ok(keeper.figures.numBlocks < 40 * 15, 'the ring has been filled');
  await replace(0);
  assert.is((await load(used)).numBlocks, 1);
  assert.is((await load(textOf(1000, 15))).numBlocks, 0);
});

test('a load waits until there is room, and after a while goes without the rest', async () => {
  const { place, save, replace, load, release, staging, clock } = await keeping();
  const texts = [textOf(1, 3), textOf(100, 3), textOf(200, 3)];
  for (const [index, text] of texts.entries()) place().compute(text, idsUpTo(3, index * 3));
  await save();
  await replace(0);
  const [one, other, third] = texts as [number[], number[], number[]];
  const first = await load(one);
  assert.is(first.numBlocks, 3);
  const waiting = load(other);
  while (clock.numTimers === 0) await nextTurn();
  await release(first.number);
  const second = await waiting;
  assert.is(second.numBlocks, 3);
  assert.is(staging.taken(other), 3);
  const late = load(third);
  while (clock.numTimers === 0) await nextTurn();
  clock.pass(maxRoomWaitMs);
  assert.is((await late).numBlocks, 1);
  assert.is(staging.taken(third), 1);
  assert.is(clock.numTimers, 0);
});

test('a load that is released while it waits takes nothing', async () => {
  const { place, save, replace, load, release, clock } = await keeping();
  const texts = [textOf(1, 4), textOf(100, 4)];
  for (const [index, text] of texts.entries()) place().compute(text, idsUpTo(4, index * 4));
  await save();
  await replace(0);
  const first = await load(texts[0] as number[]);
  const waiting = load(texts[1] as number[]);
  while (clock.numTimers === 0) await nextTurn();
  await release(2);
  assert.is((await waiting).numBlocks, 0);
  await release(first.number);
  assert.is((await load(texts[1] as number[])).numBlocks, 4, 'all of the room is there for the next one');
});

test('a load that is released before its turn holds nothing of what other loads have put there', async () => {
  const { place, save, replace, load, release, clock } = await keeping();
  const [text, other] = [textOf(1, 4), textOf(100, 4)];
  place().compute(text, idsUpTo(4));
  place().compute(other, idsUpTo(4, 4));
  await save();
  await replace(0);
  const first = await load(text);
  await release(first.number);
  // What a runner has is not read, but held where it is.
  place().compute(text.slice(0, 24), idsUpTo(3));
  await save();
  const early = load(text);
  await release(2);
  assert.is((await early).numBlocks, 0);
  let isLoaded = false;
  const last = load(other).finally(() => (isLoaded = true));
  while (!isLoaded && clock.numTimers === 0) await nextTurn();
  clock.pass(maxRoomWaitMs);
  assert.is((await last).numBlocks, 4, 'all of the room is there for the next one');
});

test('from a block on that is not as it was written, the text is computed again', async () => {
  const { keeper, place, save, replace, load, path, staging } = await keeping();
  const text = textOf(1, 3);
  place().compute(text, [0, 1, 2]);
  await save();
  await replace(0);
  const fd = openSync(path, 'r+');
  // In the second block.
  writeSync(fd, 'x', partsOf(FILE_BYTES).dataBegin + placeShape.blockBytes + 5);
  closeSync(fd);
  assert.is((await load(text)).numBlocks, 1);
  assert.is(staging.taken(text), 1);
  assert.is(keeper.figures.numDropped, 1);
});

test('of a text for which there is no room, the part is loaded for which there is', async () => {
  const { place, save, replace, load, staging } = await keeping({ shape: groupedShape });
  const text = textOf(1, 5);
  for (const [index, entry] of place().compute(text, idsUpTo(5)).entries())
    place().computeBeside(entry, text.slice(0, index * 8 + 8), 8 + index);
  await save();
  await replace(0);
  assert.is((await load(text)).numBlocks, 4, 'two of each group, a quarter of the cache');
  assert.is(staging.taken(text), 2);
});

test('of layers in groups, the longest part is found of which all have what the next row sees', async () => {
  const { place, save, replace, load, staging } = await keeping({
    shape: { ...groupedShape, numBlocks: 64 },
  });
  const text = textOf(1, 6);
  const entries = place().compute(text, idsUpTo(6));
  const beside = (index: number): void =>
    place().computeBeside(entries[index] as IndexEntry, text.slice(0, index * 8 + 8), 8 + index);
  // Behind block 5 the second group sees blocks 2 to 4, and behind the last one 3 to 5.
  for (const index of [2, 3, 4]) beside(index);
  await save();
  await replace(0);
  const { numBlocks } = await load(text);
  assert.is(numBlocks, 5 + 3);
  assert.is(staging.taken(text), 5);
  place().compute(text.slice(0, 16), [0, 1]);
  await save();
  assert.is(
    (await load(text)).numBlocks,
    8,
    'without its window the runner can go on behind none of its own',
  );
});

test('memory that is closed meanwhile is left alone', async () => {
  const { keeper, place, save, told, load } = await keeping();
  place().compute(textOf(1, 4), [0, 1, 2, 3]);
  const saving = save();
  await keeper.handle({ type: 'no_pool', pool: POOL });
  await saving;
  assert.ok(keeper.figures.numSaved < 4);
  assert.is((await load(textOf(1, 4))).numBlocks, 0);
  const { memory } = place();
  await keeper.handle({
    type: 'place',
    pool: POOL,
    place: 0,
    memory: { ...memory, inode: memory.inode + 1n },
  });
  await keeper.handle({ type: 'place', pool: POOL, place: 0, memory: { ...memory, path: '/proc/0/fd/3' } });
  await save();
  await keeper.handle({ type: 'staging', pool: POOL, memory: undefined });
  assert.is((await load(textOf(1, 4))).numBlocks, 0);
  assert.not.ok(told.some(({ type }) => type === 'failed'));
});

test.run();
