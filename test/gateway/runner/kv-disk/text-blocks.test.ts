/** Which blocks of a text a runner needs: the rules of runner/engine/kv_windows.h, compared with what rows see. */
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { TextBlocks, windowsOf } from '../../../../gateway/runner/kv-disk/text-blocks.ts';
import { placeShape } from '../../../fixtures/kv-places.ts';
import { Random } from '../../../fixtures/random.ts';

const test = suite('blocks of a text');
const BLOCK = placeShape.blockSize;

test('the windows of groups are in what the cache is of', () => {
  assert.equal(windowsOf('int8-1 f16 0123-4-5-6 30x3x64 1'), [0]);
  assert.equal(windowsOf('int8-1 f16 0123-4-5-6 30x3x64 short 1'), [0]);
  assert.equal(windowsOf('int8-1 f16 0123-4-5-6 5x1x256x0,512,1024 short 1'), [0, 512, 1024]);
});

function blocksOf(numTokens: number, windows: readonly number[]): TextBlocks {
  const groups = windows.length === 1 ? '' : `x${windows.join()}`;
  const shape = { ...placeShape, contents: `int8-1 f16 m 2x1x8${groups} 1` };
  const ids = Uint32Array.from({ length: numTokens }, (_, index) => index);
  return new TextBlocks(shape, { ids, salt: new Uint8Array() });
}

test('the last token is in no block', () => {
  assert.equal(
    [8, 9, 16, 17].map((numTokens) => blocksOf(numTokens, [0]).numBlocks),
    [0, 1, 1, 2],
  );
});

/** Whether the row behind so many blocks sees a position of the block. */
function isSeen(window: number, numBlocks: number, index: number): boolean {
  const position = numBlocks * BLOCK;
  for (let at = index * BLOCK; at < (index + 1) * BLOCK; at += 1)
    if (window === 0 || at > position - window) return true;
  return false;
}

test('what is needed is what the next row sees, whatever is there', () => {
  const random = new Random();
  for (let turn = 0; turn < 300; turn += 1) {
    const windows = [0, ...Array.from({ length: random.below(3) }, () => 1 + random.below(60))];
    const blocks = blocksOf(1 + random.below(120), windows);
    const hint = `seed ${random.seed}, turn ${turn}, windows ${windows}`;
    const there = new Set<string>();
    for (const [group] of windows.entries())
      for (let index = 0; index < blocks.numBlocks; index += 1)
        if (random.below(8) > 0) there.add(blocks.key(group, index));
    const has = (key: string): boolean => there.has(key);
    const canGoOn = (end: number): boolean => {
      for (let index = 0; index < end; index += 1)
        for (const [group, window] of windows.entries())
          if ((group === 0 || isSeen(window, end, index)) && !has(blocks.key(group, index))) return false;
      return true;
    };
    let most = 0;
    for (let end = 0; end <= blocks.numBlocks; end += 1) if (canGoOn(end)) most = end;
    const longest = blocks.longest(has);
    assert.is(longest, most, hint);
    const begin = random.below(longest + 1);
    const needed = blocks.needed(begin, longest);
    const wanted = [];
    for (let index = begin; index < longest; index += 1)
      for (const [group, window] of windows.entries())
        if (group === 0 || isSeen(window, longest, index)) wanted.push({ group, index });
    assert.equal(needed, wanted, hint);
    assert.ok(blocks.longest(has, begin) <= begin, hint);
  }
});

test.run();
