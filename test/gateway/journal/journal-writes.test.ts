import { ClassicLevel } from 'classic-level';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { DurableJob, Job } from '../../../gateway/jobs/job.ts';
import type { Journal } from '../../../gateway/journal/journal.ts';
import { emptyContent } from '../../../gateway/journal/records.ts';
import { JournalStore } from '../../../gateway/journal/store.ts';
import { cancelled } from '../../../gateway/runner/runner.ts';
import { journalFolder, openTestJournal, recordOf } from '../../fixtures/durable.ts';
import { PATIENCE_MS, until } from '../../fixtures/within.ts';

/** When the journal's writes are on the disk, and in which order they come. */

const { write } = JournalStore.prototype;
const { batch } = ClassicLevel.prototype;

const test = suite('journal-writes');

const journals: Journal[] = [];
let releaseWrite = (): void => {};

/** It is closed after the test, whatever happens. */
async function opened(folder: string): Promise<Journal> {
  const journal = await openTestJournal(folder);
  journals.push(journal);
  return journal;
}

test.after.each(async () => {
  JournalStore.prototype.write = write;
  Object.assign(ClassicLevel.prototype, { batch });
  releaseWrite();
  for (const journal of journals.splice(0)) await journal.close();
});

async function beginIn(journal: Journal, id: string) {
  const record = recordOf(id);
  const entry = await journal.admit(record);
  const kept: string[] = [];
  const unread = { record, content: emptyContent(record.request), endedMs: undefined, numDeaths: 0 };
  const job = new DurableJob(new Job(entry, {}), entry, unread, {
    now: () => 5000,
    onNews: (each) => journal.touch(each),
    onRefused: () => false,
    onEnd: () => {},
    onEndKept: () => kept.push(id),
  });
  return { job, entry, kept };
}

/** Holds the next write until releaseWrite() is called. Returns whether it is held now. */
function holdNextWrite(): () => boolean {
  const released = new Promise<void>((resolve) => (releaseWrite = resolve));
  let isHeld = false;
  JournalStore.prototype.write = async function (...args) {
    JournalStore.prototype.write = write;
    isHeld = true;
    await released;
    return write.apply(this, args);
  };
  return () => isHeld;
}

/** What LevelDB is asked for during `work`: the last letter of each key's kind, and whether it is synced. */
async function syncsOf(work: () => Promise<unknown>): Promise<[string, boolean][]> {
  const asked: [string, boolean][] = [];
  Object.assign(ClassicLevel.prototype, {
    batch(this: ClassicLevel, ...args: Parameters<typeof batch>) {
      const [operations, { sync = false } = {}] = args as unknown as [
        { type: string; key: string }[],
        { sync?: boolean }?,
      ];
      for (const { type, key } of operations) asked.push([`${type} ${key.split('/').at(-1)?.[0]}`, sync]);
      return batch.apply(this, args);
    },
  });
  try {
    await work();
  } finally {
    Object.assign(ClassicLevel.prototype, { batch });
  }
  return asked;
}

test('records, cancels and deletions are synced to the disk; tokens and other ends are not', async () => {
  const journal = await opened(journalFolder());
  const begun: Awaited<ReturnType<typeof beginIn>>[] = [];
  const admitted = await syncsOf(async () =>
    begun.push(await beginIn(journal, 'a'), await beginIn(journal, 'b')),
  );
  assert.equal(admitted, [
    ['put r', true],
    ['put s', true],
    ['put r', true],
    ['put s', true],
  ]);
  const [a, b] = begun;
  assert.ok(a && b);
  const tokens = await syncsOf(async () => {
    for (const { job } of begun) {
      job.log.append({ firstIndex: 0, tokenIds: [1] });
      journal.touch(job);
    }
    await journal.flush();
  });
  assert.equal(tokens, [
    ['put t', false],
    ['put t', false],
  ]);
  const cancel = await syncsOf(async () => {
    a.job.fail(cancelled());
    await journal.flush();
  });
  assert.equal(cancel, [['put z', true]]);
  const deletion = await syncsOf(() => journal.forget(b.entry));
  assert.equal(deletion, [
    ['del r', true],
    ['del s', true],
    ['del t', true],
  ]);
});

test('an end is reported when it is written, not before', async () => {
  const journal = await opened(journalFolder());
  const { job, entry, kept } = await beginIn(journal, 'a');
  const isHeld = holdNextWrite();
  job.fail(cancelled());
  const flushed = journal.flush();
  await until(PATIENCE_MS, 'The write', isHeld);
  assert.equal([kept, entry.endedMs], [[], undefined]);
  releaseWrite();
  await flushed;
  assert.equal([kept, entry.endedMs], [['a'], 5000]);
});

test('a job that is deleted while its tokens are written is gone', async () => {
  const folder = journalFolder();
  const journal = await opened(folder);
  const { job, entry } = await beginIn(journal, 'a');
  job.log.append({ firstIndex: 0, tokenIds: [1] });
  journal.touch(job);
  const isHeld = holdNextWrite();
  const flushed = journal.flush();
  await until(PATIENCE_MS, 'The write', isHeld);
  const forgotten = journal.forget(entry);
  // A deletion that did not wait would be done by the time that another write is.
  await journal.admit(recordOf('b'));
  releaseWrite();
  await Promise.all([flushed, forgotten]);
  await journal.close();
  const next = await opened(folder);
  assert.equal(
    next.unfinished.map(({ id }) => id),
    ['b'],
  );
});

test('a job that is deleted while it has tokens that are not written leaves nothing', async () => {
  const folder = journalFolder();
  const journal = await opened(folder);
  const { job, entry } = await beginIn(journal, 'a');
  job.log.append({ firstIndex: 0, tokenIds: [1] });
  journal.touch(job);
  await journal.forget(entry);
  await journal.close();
  const next = await opened(folder);
  assert.equal(next.unfinished, [], 'and a piece without its job would be reported as damage');
});

test.run();
