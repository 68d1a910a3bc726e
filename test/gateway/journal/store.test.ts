import { chmodSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ClassicLevel } from 'classic-level';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { JournalStore } from '../../../gateway/journal/store.ts';
import { journalFolder } from '../../fixtures/durable.ts';
import { errorOf } from '../../fixtures/errors.ts';

const test = suite('journal-store');

async function storedIn(store: JournalStore, key: string): Promise<number[] | null | undefined> {
  const value = await store.get(key);
  return value && [...value];
}

test('a value that stands under another key than it was written for is damaged', async () => {
  const folder = journalFolder();
  const store = await JournalStore.open(folder);
  await store.write([
    { type: 'put', key: 'a', value: Uint8Array.of(1) },
    { type: 'put', key: 'b', value: Uint8Array.of(2) },
  ]);
  await store.close();
  const db = new ClassicLevel<string, Uint8Array>(folder, { valueEncoding: 'view' });
  await db.put('b', (await db.get('a')) as Uint8Array);
  await db.close();
  const again = await JournalStore.open(folder);
  assert.equal([await storedIn(again, 'a'), await storedIn(again, 'b')], [[1], null]);
  await again.close();
});

test('a folder that anybody else may read, write or enter is refused', async () => {
  for (const mode of [0o740, 0o720, 0o710, 0o704, 0o702, 0o701]) {
    const folder = journalFolder();
    mkdirSync(folder);
    const shown = mode.toString(8);
    chmodSync(folder, mode);
    assert.match(
      String(await errorOf(() => JournalStore.open(folder))),
      new RegExp(`mode ${shown}\\).*chmod 700`),
    );
    chmodSync(folder, 0o700);
    await (await JournalStore.open(folder)).close();
  }
});

test('a folder whose lock file was removed or replaced is not written to', async () => {
  for (const [what, change] of [
    ['removed', (lock: string) => rmSync(lock)],
    [
      'replaced',
      (lock: string) => {
        writeFileSync(`${lock}-other`, '');
        renameSync(`${lock}-other`, lock);
      },
    ],
  ] as const) {
    const folder = journalFolder();
    const store = await JournalStore.open(folder);
    await store.write([{ type: 'put', key: 'a', value: Uint8Array.of(1) }]);
    change(join(folder, 'LOCK'));
    const put = () => store.write([{ type: 'put', key: 'b', value: Uint8Array.of(2) }]);
    assert.match(String(await errorOf(put)), new RegExp(`LOCK was ${what}.*another gateway`));
    assert.match(String(await errorOf(() => store.remove('a', true))), /LOCK/);
    await store.close();
    const next = await JournalStore.open(folder);
    assert.equal([await storedIn(next, 'a'), await storedIn(next, 'b')], [[1], undefined]);
    await next.close();
  }
});

test('bytes that are dropped because one bit of them has flipped are counted', async () => {
  const folder = journalFolder();
  const store = await JournalStore.open(folder);
  for (const number of Array(100).keys())
    await store.write([{ type: 'put', key: `j/${number}`, value: Buffer.alloc(100, number) }]);
  await store.close();
  const [name] = readdirSync(folder).filter((each) => each.endsWith('.log'));
  const log = join(folder, name as string);
  const bytes = readFileSync(log);
  bytes.writeUInt8(bytes.readUInt8(5000) ^ 4, 5000);
  writeFileSync(log, bytes);
  const again = await JournalStore.open(folder);
  assert.ok(again.numDroppedBytes > 100, String(again.numDroppedBytes));
  assert.is(await again.get('j/99'), undefined);
  await again.close();
  const whole = await JournalStore.open(folder);
  assert.is(whole.numDroppedBytes, 0);
  await whole.close();
});

test.run();
