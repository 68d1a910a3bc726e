/** What the keeper finds in the memory of a runner, which may be writing to it. */
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { keyAfter, keyBeforeFirst, keyBeside } from '../../../../gateway/runner/kv-disk/block-keys.ts';
import { type PlaceBlock, PlaceMemory } from '../../../../gateway/runner/kv-disk/place-memory.ts';
import {
  bytesOf,
  FakePlace,
  groupedShape,
  hash64,
  idBytes,
  placeShape,
} from '../../../fixtures/kv-places.ts';

const test = suite('memory of a place');

const TEXT = Array.from({ length: 24 }, (_, index) => index + 1);

/** The keys of the whole blocks of the text. */
function keysOf(ids: readonly number[], salt = ''): string[] {
  let key = keyBeforeFirst(placeShape.contents, Buffer.from(salt));
  return Array.from({ length: Math.floor(ids.length / 8) }, (_, index) => {
    key = keyAfter(key, idBytes(ids.slice(index * 8, index * 8 + 8)));
    return key;
  });
}

function opened(place = new FakePlace()) {
  return { place, memory: new PlaceMemory(place.open(), place.memory.bytes, hash64) };
}

test('a look finds what is new since the last one, each block after the one that it continues', () => {
  const { place, memory } = opened();
  assert.equal(memory.scan(), []);
  assert.equal(memory.shape, placeShape);
  place.compute(TEXT, [5, 3, 9]);
  const found = memory.scan();
  assert.equal(
    found.map(({ id, key }) => [id, key]),
    [5, 3, 9].map((id, index) => [id, keysOf(TEXT)[index]]),
  );
  assert.equal(
    found.map((block) => memory.read(block)),
    [8, 16, 24].map((end) => bytesOf(TEXT.slice(0, end), '')),
  );
  assert.equal(memory.scan(), []);
  place.compute([...TEXT.slice(0, 8), ...TEXT.slice(16)], [5, 1]);
  assert.is(memory.scan().length, 2);
});

test('a block that is used again is found again', () => {
  const { place, memory } = opened();
  place.compute(TEXT, [0, 1, 2]);
  memory.scan();
  place.use(1, 5n);
  assert.equal(
    memory.scan().map(({ id, usedAt }) => [id, usedAt]),
    [[1, 5n]],
  );
  assert.equal(memory.scan(), []);
});

test('keys depend on the salt and on what the cache is of', () => {
  const keys = [
    ...keysOf(TEXT),
    ...keysOf(TEXT, 'a tenant'),
    keyAfter(keyBeforeFirst('another model', Buffer.alloc(0)), idBytes(TEXT.slice(0, 8))),
  ];
  assert.is(new Set(keys).size, keys.length);
  const { place, memory } = opened();
  place.compute(TEXT, [0, 1, 2], 'a tenant');
  assert.equal(
    memory.scan().map(({ key }) => key),
    keysOf(TEXT, 'a tenant'),
  );
});

test('a block that is being reused is not there any more', () => {
  const { place, memory } = opened();
  place.compute(TEXT, [0, 1, 2]);
  const [first, second] = memory.scan();
  assert.ok(first && second);
  place.invalidate(0);
  assert.is(memory.read(first), undefined);
  assert.is(memory.find(first.key), undefined);
  assert.equal(memory.find(second.key), second);
  assert.equal(memory.scan(), []);
  place.compute(TEXT, [0]);
  assert.equal(
    memory.scan().map(({ id }) => id),
    [0],
  );
});

test('a damaged entry is no block, and what continues it is of no text', () => {
  const { place, memory } = opened();
  place.compute(TEXT, [0, 1, 2]);
  place.damage(1, 60);
  assert.equal(
    memory.scan().map(({ id }) => id),
    [0],
  );
  place.damage(1, 60);
  assert.equal(
    memory.scan().map(({ id }) => id),
    [1, 2],
  );
});

test('the number of a content is not taken for an earlier one that had it', () => {
  const { place, memory } = opened();
  const [first] = place.compute(TEXT, [0]);
  assert.ok(first);
  const [known] = memory.scan();
  // The next runner gives the number to another text, whose block takes the place of the first one.
  place.invalidate(0);
  const other = TEXT.map((id) => id + 100);
  place.put(1, { ...first, content: 2n, previousContent: 1n, ids: idBytes(TEXT.slice(8, 16)) });
  assert.equal(memory.scan(), [], 'its beginning is not there');
  place.put(0, { ...first, ids: idBytes(other.slice(0, 8)) });
  const keys = memory.scan().map(({ key }) => key);
  assert.is(keys.length, 2);
  assert.is(keys[0], keysOf(other)[0]);
  assert.not.ok(keys.includes(known?.key as string));
  assert.not.ok(keys.includes(keysOf(TEXT)[1] as string));
});

test('what a block continues must be there after its entry was read', () => {
  const place = new FakePlace();
  let numHashes = 0;
  const memory = new PlaceMemory(place.open(), place.memory.bytes, (bytes, seed) => {
    // The first is of the header. The runner reuses the first block while the entries are looked at.
    numHashes += 1;
    if (numHashes === 2) place.invalidate(0);
    return hash64(bytes, seed);
  });
  place.compute(TEXT, [0, 1]);
  const [first, ...others] = memory.scan();
  assert.equal([first?.id, others], [0, []]);
  assert.is(memory.read(first as PlaceBlock), undefined);
});

test('the next cache in the memory has nothing of the last one', () => {
  const { place, memory } = opened();
  place.compute(TEXT, [0, 1]);
  const [block] = memory.scan();
  assert.ok(block);
  const next = opened(new FakePlace({ contents: 'another model' }));
  assert.equal(next.memory.scan(), []);
  assert.is(next.memory.find(block.key), undefined);
});

test('a block of another group is that of the block of the first one with the same content', () => {
  const { place, memory } = opened(new FakePlace(groupedShape));
  const [, second] = place.compute(TEXT, [0, 1]);
  assert.ok(second);
  place.computeBeside(second, TEXT.slice(0, 16), 5);
  const [, first, beside] = memory.scan();
  assert.ok(first && beside);
  assert.equal([beside.id, beside.group, beside.key], [5, 1, keyBeside(first.key, 1)]);
  assert.equal(memory.read(beside), bytesOf(TEXT.slice(0, 16), '', 1));
  assert.is(memory.find(first.key)?.id, 1);
  place.invalidate(1);
  place.invalidate(5);
  assert.equal(memory.scan(), []);
  place.computeBeside(second, TEXT.slice(0, 16), 5);
  assert.equal(memory.scan(), [], 'without that one nobody knows its text');
});

test.run();
