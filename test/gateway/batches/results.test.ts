import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { type Result, Results } from '../../../gateway/batches/results.ts';
import { temporaryFolder } from '../../fixtures/temporary-folder.ts';

const test = suite('results');

const path = join(temporaryFolder().path, 'results');
const GIVEN: readonly Result[] = [
  { number: 3, kind: 'output', text: '{"custom_id":"ä"}' },
  { number: 1, kind: 'error', text: '' },
  { number: 20_000, kind: 'output', text: `{"body":"${'x'.repeat(70_000)} 7 output 3 abc"}` },
  { number: 2, kind: 'output', text: '🍎' },
];

async function readAll(results: Results): Promise<(Result | undefined)[]> {
  return Promise.all(GIVEN.map(({ number }) => results.read(number)));
}

async function written(): Promise<Buffer> {
  writeFileSync(path, '');
  const results = await Results.open(path);
  await Promise.all(GIVEN.map((result) => results.add(result)));
  assert.equal(await readAll(results), GIVEN);
  await results.close();
  return readFileSync(path);
}

test('results are found again by the next process, and counted by their kind', async () => {
  await written();
  const results = await Results.open(path);
  assert.equal(await readAll(results), GIVEN);
  assert.equal([results.count('output'), results.count('error')], [3, 1]);
  assert.is(
    results.numBytes,
    GIVEN.reduce((sum, result) => sum + Results.bytesOf(result), 0),
  );
  assert.is(await results.read(4), undefined);
  await results.close();
});

test('results that a death cuts off at any byte lose the last one alone, and more can be added', async () => {
  const bytes = await written();
  const ends = GIVEN.map((_, index) =>
    GIVEN.slice(0, index + 1).reduce((sum, each) => sum + Results.bytesOf(each), 0),
  );
  const cuts = Array.from({ length: bytes.length }, (_, cut) => cut).filter(
    (cut) => cut < 200 || cut % 997 === 0 || cut > bytes.length - 50,
  );
  for (const cut of cuts) {
    writeFileSync(path, bytes.subarray(0, cut));
    const results = await Results.open(path);
    const numWhole = ends.filter((end) => end <= cut).length;
    assert.equal(
      await readAll(results),
      GIVEN.map((result, index) => (index < numWhole ? result : undefined)),
    );
    const added = { number: 5, kind: 'output', text: 'next' } as const;
    await results.add(added);
    await results.close();
    const again = await Results.open(path);
    assert.equal([await again.read(5), again.numBytes], [added, results.numBytes]);
    await again.close();
  }
});

test('a result whose bytes were lost is no result, whether it is the last one or an earlier one, and its line gets another', async () => {
  const bytes = await written();
  const starts = GIVEN.map((_, index) =>
    GIVEN.slice(0, index).reduce((sum, each) => sum + Results.bytesOf(each), 0),
  );
  for (const [index, { number, text }] of GIVEN.entries()) {
    if (text === '') continue;
    const damaged = Buffer.from(bytes);
    // What a file system leaves of a block that it had not written when the power failed.
    const end = (starts[index] as number) + Results.bytesOf(GIVEN[index] as Result) - 1;
    damaged.fill(0, end - Buffer.byteLength(text), end);
    writeFileSync(path, damaged);
    const results = await Results.open(path);
    const isLast = index === GIVEN.length - 1;
    const left = GIVEN.map((result, other) => (other === index ? undefined : result));
    assert.equal(await readAll(results), left, `result ${index}`);
    assert.is(
      results.has(number),
      !isLast,
      'one that a death can have cut off is looked at when the file is opened',
    );
    if (isLast) {
      await results.add(GIVEN[index] as Result);
      assert.equal(await readAll(results), GIVEN);
    }
    await results.close();
  }
});

test('a line has one result', async () => {
  writeFileSync(path, '');
  const results = await Results.open(path);
  await results.add({ number: 1, kind: 'output', text: 'a' });
  await results.add({ number: 1, kind: 'output', text: 'b' }).then(
    () => assert.unreachable(),
    (error) => assert.match(error.message, /line 1 has a result already/),
  );
  assert.is((await results.read(1))?.text, 'a');
  await results.close();
});

test.run();
