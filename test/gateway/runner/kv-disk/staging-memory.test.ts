/** What a runner finds in the memory into which blocks of the file are put. */
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { keyAfter, keyBeforeFirst } from '../../../../gateway/runner/kv-disk/block-keys.ts';
import { type StagedBlock, StagingMemory } from '../../../../gateway/runner/kv-disk/staging-memory.ts';
import { bytesOf, FakeStaging, hash64, idBytes, placeShape } from '../../../fixtures/kv-places.ts';

const test = suite('staging memory');

const textOf = (first: number, numBlocks: number): number[] =>
  Array.from({ length: numBlocks * 8 }, (_, index) => first + index);

/** The blocks of the text. Those before numBefore have no bytes. */
function blocksOf(ids: readonly number[], numBefore = 0, salt = ''): StagedBlock[] {
  const blocks: StagedBlock[] = [];
  let previous: string | undefined;
  for (let index = 0; index < ids.length / 8; index += 1) {
    const own = idBytes(ids.slice(index * 8, index * 8 + 8));
    const key = keyAfter(previous ?? keyBeforeFirst(placeShape.contents, Buffer.from(salt)), own);
    const bytes = bytesOf(ids.slice(0, index * 8 + 8), salt);
    const facts = {
      key,
      first: key,
      group: 0,
      previous,
      hash: BigInt(index),
      checksum: hash64(bytes, 2n),
      salt: Buffer.from(salt),
      ids: own,
    };
    blocks.push({ ...facts, bytes: index < numBefore ? undefined : bytes });
    previous = key;
  }
  return blocks;
}

function staging(numBytes?: number) {
  const runner = new FakeStaging(numBytes);
  const memory = new StagingMemory(runner.open(), runner.memory.bytes, hash64);
  memory.fit(placeShape);
  /** Puts the blocks there for this holder, as far as there is room. Returns how many are held. */
  const put = (holder: number, blocks: readonly StagedBlock[]): number => {
    for (const [index, block] of blocks.entries()) {
      const needsBytes = block.bytes !== undefined;
      if (memory.hold(holder, block.key, needsBytes)) continue;
      if (!memory.hasRoom(needsBytes)) return index;
      memory.put(holder, block);
    }
    return blocks.length;
  };
  return { runner, memory, put };
}

test('a runner finds the text from its first block on', () => {
  const { runner, put } = staging();
  const text = textOf(1, 3);
  assert.is(runner.taken(text), 0);
  assert.is(put(1, blocksOf(text)), 3);
  assert.is(runner.taken(text), 3);
  assert.is(runner.taken(text, 0, 'a tenant'), 0);
  assert.is(runner.taken(textOf(2, 3)), 0);
});

test('of blocks that the runner has, the entries lead to those that it has not', () => {
  const { runner, put } = staging();
  const text = textOf(1, 4);
  put(1, blocksOf(text, 2));
  assert.is(runner.taken(text, 2), 2);
  assert.is(runner.taken(text, 0), 0, 'there are no bytes of the first ones');
});

test('there is room for a quarter of the cache, which is free again when nobody holds it', () => {
  const { runner, memory, put } = staging();
  const [first, second] = [textOf(1, 3), textOf(100, 3)];
  assert.is(put(1, blocksOf(first)), 3);
  assert.is(put(2, blocksOf(second)), 1, 'four blocks of sixteen');
  assert.not.ok(memory.hasRoom(true));
  memory.release(1);
  assert.is(runner.taken(first), 3, 'what is released stays until its place is needed');
  assert.is(put(2, blocksOf(second).slice(1)), 2);
  assert.is(runner.taken(second), 3);
  assert.is(runner.taken(first), 0, 'the block that was released first has left first');
});

test('texts share their beginning, and each holder keeps it there', () => {
  const { runner, memory, put } = staging();
  const [one, other] = [textOf(1, 3), [...textOf(1, 2), ...textOf(200, 1)]];
  assert.is(put(1, blocksOf(one)), 3);
  assert.is(put(2, blocksOf(other)), 3, 'one block more');
  memory.release(1);
  assert.is(put(3, blocksOf(textOf(300, 3))), 1, 'only the last block of the first text has left');
  assert.is(runner.taken(other), 3);
});

test('a text that is held again stays, although it was released before', () => {
  const { runner, memory, put } = staging();
  const text = textOf(1, 2);
  put(1, blocksOf(text));
  memory.release(1);
  put(2, blocksOf(text));
  assert.is(put(3, blocksOf(textOf(100, 4))), 2);
  assert.is(runner.taken(text), 2);
});

test('an entry without bytes is replaced by one with bytes when these are needed', () => {
  const { runner, memory, put } = staging();
  const text = textOf(1, 2);
  put(1, blocksOf(text, 1));
  put(2, blocksOf(text));
  assert.is(runner.taken(text), 2);
  memory.release(1);
  assert.is(runner.taken(text), 2);
  memory.release(2);
  put(3, blocksOf(text));
  assert.is(runner.taken(text), 2);
});

test('for another model the memory begins anew', () => {
  const { runner, memory, put } = staging();
  const text = textOf(1, 2);
  put(1, blocksOf(text));
  memory.fit({ ...placeShape, numBlocks: 8 });
  assert.is(runner.taken(text), 0);
  assert.is(runner.entries().size, 0);
  assert.is(put(2, blocksOf(text)), 2);
  memory.fit({ ...placeShape, numBlocks: 8 });
  assert.is(runner.taken(text), 2, 'and for the same one it does not');
});

test('in memory that is too small for all entries there are fewer', () => {
  const { runner, put } = staging(2 ** 21 + 6 * placeShape.blockBytes);
  assert.is(put(1, blocksOf(textOf(1, 2))), 2);
  assert.is(runner.taken(textOf(1, 2)), 2);
  assert.ok(put(2, blocksOf(textOf(100, 9), 9)) < 9);
});

test.run();
