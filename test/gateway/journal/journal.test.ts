import { chmodSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ClassicLevel } from 'classic-level';
import * as assert from 'uvu/assert';
import { DurableJob, Job } from '../../../gateway/jobs/job.ts';
import { endKey, pieceKey, TOKENS_PER_PIECE } from '../../../gateway/journal/entry.ts';
import { type Journal, sweepMs } from '../../../gateway/journal/journal.ts';
import { JournalError, JournalRefusal, JournalUnavailable } from '../../../gateway/journal/journal-error.ts';
import { emptyContent, type JobRecord } from '../../../gateway/journal/records.ts';
import { JournalStore } from '../../../gateway/journal/store.ts';
import { GenerationError } from '../../../gateway/runner/runner.ts';
import { closingSuite } from '../../fixtures/closing-suite.ts';
import { journalFolder, openTestJournal, recordOf } from '../../fixtures/durable.ts';
import { callerNamed } from '../../fixtures/keys.ts';
import { VirtualClock } from '../../fixtures/virtual-clock.ts';
import { PATIENCE_MS, until } from '../../fixtures/within.ts';

const test = closingSuite('journal');

const { hideFiles } = JournalStore.prototype;

const failure = new GenerationError('CANCELLED', 'No.', { retriable: false });

async function beginIn(journal: Journal, record: JobRecord, endedMs = 5000): Promise<DurableJob> {
  const entry = await journal.admit(record);
  const kept = { record, content: emptyContent(record.request), endedMs: undefined, numDeaths: 0 };
  return new DurableJob(new Job(entry, {}), entry, kept, {
    now: () => endedMs,
    onNews: (job) => journal.touch(job),
    onRefused: () => false,
    onEnd: () => {},
    onEndKept: () => {},
  });
}

async function expectRefusal(
  refused: Promise<unknown>,
  kind: new (...args: never[]) => Error,
  words: RegExp,
) {
  try {
    await refused;
  } catch (error) {
    assert.instance(error, kind);
    assert.match((error as Error).message, words);
    return error as Error;
  }
  return assert.unreachable('it was taken');
}

test('the next process to open the folder reads its records; other users cannot', async () => {
  const folder = journalFolder();
  const first = await openTestJournal(folder);
  const running = await beginIn(first, recordOf('running'));
  const ended = await beginIn(first, recordOf('ended', { caller: 'cafe' }));
  running.log.append({ firstIndex: 0, tokenIds: [1, 2] });
  first.touch(running);
  await first.flush();
  running.log.append({ firstIndex: 2, tokenIds: [3] });
  first.touch(running);
  ended.log.append({ firstIndex: 0, tokenIds: [9] });
  ended.fail(failure);
  await first.close();

  const second = await openTestJournal(folder, { now: () => 6000 });
  assert.equal(second.secret, first.secret);
  assert.equal(
    second.unfinished.map(({ id }) => id),
    ['running'],
  );
  const [unfinished] = second.unfinished;
  assert.ok(unfinished);
  const read = await second.read(unfinished);
  assert.equal(read.content.tokenIds, [1, 2, 3]);
  assert.is(read.content.end, undefined);
  assert.is(second.find('', 'ended'), undefined, 'it is another caller’s');
  const found = second.find('cafe', 'ended');
  assert.ok(found);
  const whole = await second.read(found);
  assert.equal([whole.content.tokenIds, whole.endedMs], [[9], 5000]);
  assert.is(whole.content.end?.kind, 'error');
  for (const name of ['', ...readdirSync(folder)])
    assert.is(statSync(join(folder, name)).mode & 0o077, 0, name);
});

test('an existing job is not started again, even while it is being written', async () => {
  const journal = await openTestJournal(journalFolder());
  const first = journal.admit(recordOf('a'));
  assert.is(journal.find('', 'a'), undefined);
  await expectRefusal(journal.admit(recordOf('a')), Error, /already has a job a/);
  const entry = await first;
  assert.is(journal.find('', 'a'), entry);
  await expectRefusal(journal.admit(recordOf('a')), Error, /already has a job a/);
  await journal.forget(entry);
  await journal.admit(recordOf('a'));
});

test('a full journal refuses more jobs and says when there is room, and has it when jobs are forgotten', async () => {
  const clock = new VirtualClock();
  const now = (): number => 5000 + clock.now() - 1000;
  const keepMs = 2 * sweepMs;
  const journal = await openTestJournal(journalFolder(), {
    maxJobs: 2,
    maxBytes: 20_000,
    keepMs,
    clock,
    now,
  });
  const job = await beginIn(journal, recordOf('a'));
  const tooLong = recordOf('long', { request: { ...recordOf('long').request, maxTokens: 10_000 } });
  await expectRefusal(
    journal.admit(tooLong),
    JournalRefusal,
    /\d+ of the 20000 bytes of --journal-max-bytes are taken/,
  );
  await journal.admit(recordOf('b'));
  const full = await expectRefusal(journal.admit(recordOf('c')), JournalRefusal, /it has 2 jobs/);
  assert.ok(((full as JournalRefusal).retryAfterSec ?? 0) >= 1);
  job.fail(failure);
  await journal.flush();
  await until(PATIENCE_MS, 'Room in the journal', () => {
    clock.pass(sweepMs);
    return journal.stats.numJobs === 1;
  });
  await journal.admit(recordOf('c'));
  const emptied = journal.stats.numBytes;
  assert.ok(emptied > 0 && emptied < 20_000);
});

/** Has a job of this caller ended in the journal. */
async function endedIn(journal: Journal, id: string, caller: string, endedMs: number): Promise<void> {
  const job = await beginIn(journal, recordOf(id, { caller }), endedMs);
  job.fail(failure);
  await journal.flush();
}

const idsIn = (journal: Journal, caller: string, ids: readonly string[]): string[] =>
  ids.filter((id) => journal.find(caller, id) !== undefined);

test('a full journal forgets the oldest ended job of the same caller, and no job that runs', async () => {
  const journal = await openTestJournal(journalFolder(), { maxJobs: 3, now: () => 5000 });
  await beginIn(journal, recordOf('running', { caller: 'a' }));
  await endedIn(journal, 'late', 'a', 3000);
  await endedIn(journal, 'early', 'a', 2000);
  const all = ['running', 'late', 'early', 'new', 'newer'];
  await journal.admit(recordOf('new', { caller: 'a' }));
  assert.equal(idsIn(journal, 'a', all), ['running', 'late', 'new']);
  await journal.admit(recordOf('newer', { caller: 'a' }));
  assert.equal(idsIn(journal, 'a', all), ['running', 'new', 'newer']);
  await expectRefusal(journal.admit(recordOf('last', { caller: 'a' })), JournalRefusal, /it has 3 jobs/);
});

test('a job that has ended takes what it has, and no longer what it might have come to', async () => {
  const journal = await openTestJournal(journalFolder(), { maxBytes: 10_000, now: () => 5000 });
  const long = (id: string): JobRecord => {
    const record = recordOf(id);
    return { ...record, request: { ...record.request, maxTokens: 1000 } };
  };
  const first = await beginIn(journal, long('a'));
  await expectRefusal(journal.admit(long('b')), JournalRefusal, /this job may grow to/);
  first.fail(failure);
  await journal.flush();
  await journal.admit(long('b'));
  assert.equal(idsIn(journal, '', ['a', 'b']), ['a', 'b']);
});

test('a caller whose ended jobs fill the journal leaves others their share, and keeps its own', async () => {
  const journal = await openTestJournal(journalFolder(), { maxJobs: 4, now: () => 5000 });
  const ids = ['1', '2', '3', '4'];
  for (const id of ids) await endedIn(journal, id, 'greedy', 1000 + Number(id));
  await journal.admit(recordOf('x', { caller: 'other' }));
  await journal.admit(recordOf('y', { caller: 'other' }));
  assert.equal(idsIn(journal, 'greedy', ids), ['3', '4'], 'the newest of its jobs, up to its share');
  await expectRefusal(journal.admit(recordOf('z', { caller: 'other' })), JournalRefusal, /it has 4 jobs/);
  assert.equal(idsIn(journal, 'greedy', ids), ['3', '4']);
});

test('73 jobs with log-probabilities of one caller reserve the whole journal, and another caller’s job is kept', async () => {
  const long = (id: string, caller: string): JobRecord => {
    const record = recordOf(id, { caller });
    return { ...record, request: { ...record.request, maxTokens: 7500, topLogprobs: 20 } };
  };
  const folder = journalFolder();
  const options = { maxJobs: 1024, maxBytes: 2 ** 28, now: () => 5000 };
  const first = await openTestJournal(folder, options);
  for (let i = 0; i < 73; i++) await first.admit(long(`${i}`, 'greedy'));
  await expectRefusal(first.admit(long('74', 'greedy')), JournalRefusal, /--journal-max-bytes are taken/);
  await first.admit(long('a', 'other'));
  await first.close();
  const second = await openTestJournal(folder, options);
  await expectRefusal(second.admit(long('74', 'greedy')), JournalRefusal, /--journal-max-bytes are taken/);
  await second.admit(long('b', 'other'));
  assert.is(second.unfinished.length, 75, 'nothing that runs was forgotten');
});

test('several keys of one caller share its place in the journal', async () => {
  const journal = await openTestJournal(journalFolder(), { maxJobs: 4, now: () => 5000 });
  const team = { ...recordOf('x').request, caller: callerNamed('team') };
  for (const caller of ['k1', 'k2'])
    for (const id of ['1', '2']) await journal.admit(recordOf(id, { caller, request: team }));
  await journal.admit(recordOf('a', { caller: 'other' }));
  await journal.admit(recordOf('b', { caller: 'other' }));
  await expectRefusal(journal.admit(recordOf('c', { caller: 'other' })), JournalRefusal, /it has 6 jobs/);
});

test('pieces are written again until they are full, and their old bytes are not counted', async () => {
  const folder = journalFolder();
  const journal = await openTestJournal(folder);
  const job = await beginIn(journal, recordOf('a'));
  const before = journal.stats.numBytes;
  for (let index = 0; index < 3 * TOKENS_PER_PIECE; index++) {
    job.log.append({ firstIndex: index, tokenIds: [70_000] });
    journal.touch(job);
    await journal.flush();
  }
  const numBytes = journal.stats.numBytes - before;
  assert.ok(numBytes < 3 * (64 + 5 * TOKENS_PER_PIECE), `${numBytes} bytes`);
  await journal.close();
  const next = await openTestJournal(folder);
  assert.is(next.stats.numBytes, before + numBytes);
  assert.is((await next.read(job.entry)).content.tokenIds.length, 3 * TOKENS_PER_PIECE);
});

test('a job of which a part is damaged is named and forgotten; the others are read', async () => {
  const folder = journalFolder();
  const first = await openTestJournal(folder);
  for (const id of ['good', 'cut', 'headless']) {
    const job = await beginIn(first, recordOf(id));
    job.log.append({ firstIndex: 0, tokenIds: [1] });
    first.touch(job);
  }
  const [good, cut, headless] = first.unfinished;
  assert.ok(good && cut && headless);
  await first.close();
  const db = new ClassicLevel<string, Uint8Array>(folder, { valueEncoding: 'view' });
  await db.put(`${cut.key}r`, ((await db.get(`${cut.key}r`)) as Uint8Array).subarray(0, 20));
  await db.del(`${headless.key}r`);
  await db.close();
  const damaged: string[] = [];
  const second = await openTestJournal(folder, { onDamaged: (key) => damaged.push(key) });
  assert.equal(damaged, [cut.key, headless.key]);
  assert.equal(
    second.unfinished.map(({ id }) => id),
    ['good'],
  );
});

test('jobs of a newer version are named, and stay where they are until it comes back', async () => {
  const folder = journalFolder();
  const first = await openTestJournal(folder);
  const aims = { aim: 'unknown' } as Partial<JobRecord>;
  for (const record of [recordOf('member', aims), recordOf('end'), recordOf('kind'), recordOf('known')])
    await beginIn(first, record);
  const { unfinished } = first;
  await first.close();
  const store = await JournalStore.open(folder);
  const [member, end, kind, known] = unfinished.map(({ key }) => key);
  await store.write([
    { type: 'put', key: `${end}z`, value: Uint8Array.of(0xc0) },
    { type: 'put', key: `${kind}a`, value: Uint8Array.of(0xc0) },
  ]);
  const keysIn = async (each: JournalStore): Promise<string[]> => {
    const keys: string[] = [];
    for await (const { key } of each.range('j/')) keys.push(key);
    return keys;
  };
  const before = await keysIn(store);
  await store.close();
  const unknown: string[] = [];
  const second = await openTestJournal(folder, { onUnknown: (key) => unknown.push(key) });
  assert.equal(unknown, [member, end, kind]);
  assert.equal([second.stats.numJobs, second.unfinished.map(({ key }) => key)], [1, [known]]);
  await beginIn(second, recordOf('end'));
  await second.close();
  const after = await JournalStore.open(folder);
  const left = await keysIn(after);
  assert.ok(before.every((key) => left.includes(key)));
  // The newer version reads the end of the first job with this id.
  await after.write([{ type: 'del', key: `${end}z` }]);
  await after.close();
  const damaged: string[] = [];
  const onDamaged = (key: string) => damaged.push(key);
  const third = await openTestJournal(folder, { onDamaged, onUnknown: () => {} });
  assert.equal(damaged, [end], 'another job has its id');
  assert.is(third.find('', 'end')?.key !== end, true);
});

test('a value that is not as it was written is seen, and so is a gap between pieces', async () => {
  const folder = journalFolder();
  const journal = await openTestJournal(folder);
  const job = await beginIn(journal, recordOf('a'));
  for (const id of [0, 1, 2]) {
    const tokenIds = new Array<number>(TOKENS_PER_PIECE).fill(id);
    job.log.append({ firstIndex: id * TOKENS_PER_PIECE, tokenIds });
    journal.touch(job);
    await journal.flush();
  }
  await journal.close();
  const db = new ClassicLevel<string, Uint8Array>(folder, { valueEncoding: 'view' });
  const key = pieceKey(job.entry, TOKENS_PER_PIECE);
  const value = Buffer.from((await db.get(key)) as Uint8Array);
  value.writeUInt8((value.at(-1) as number) ^ 1, value.length - 1);
  await db.put(key, value);
  await db.close();
  const flipped = await openTestJournal(folder);
  await expectRefusal(flipped.read(job.entry), Error, /one of its records is damaged/);
  await flipped.close();
  const store = await JournalStore.open(folder);
  await store.write([{ type: 'del', key }]);
  await store.close();
  const gap = await openTestJournal(folder);
  await expectRefusal(gap.read(job.entry), Error, /begins at token 64, but 32 tokens come before it/);
  assert.is(endKey(job.entry), `${job.entry.key}z`);
});

test('an unusable journal folder is refused with what to do', async () => {
  const folder = journalFolder();
  await openTestJournal(folder);
  await expectRefusal(openTestJournal(folder), JournalError, /used by another gateway/);
  const open = journalFolder();
  mkdirSync(open, { mode: 0o755 });
  await expectRefusal(openTestJournal(open), JournalError, /mode 755.*chmod 700/);
  const corrupt = journalFolder();
  const before = await openTestJournal(corrupt);
  await before.close();
  writeFileSync(join(corrupt, 'CURRENT'), 'nonsense');
  await expectRefusal(openTestJournal(corrupt), JournalError, /cannot be read.*move the folder away/);
  const other = journalFolder();
  const store = await JournalStore.open(other);
  await store.write([{ type: 'put', key: 'meta', value: Buffer.alloc(33, 9) }]);
  await store.close();
  await expectRefusal(openTestJournal(other), JournalError, /format 9, but this gateway reads format 2/);
  chmodSync(open, 0o700);
});

test('a folder on a disk that is full or does not answer is no fault of the folder', async () => {
  const { open } = ClassicLevel.prototype;
  const folder = journalFolder();
  for (const reason of ['No space left on device', 'Input/output error', 'Disk quota exceeded']) {
    const cause = new Error(`IO error: ${folder}/000005.ldb: ${reason}`);
    const failing = async () => {
      throw new Error('Database failed to open', { cause });
    };
    Object.assign(ClassicLevel.prototype, { open: failing });
    try {
      const words = new RegExp(`cannot be opened now: ${reason}\\.$`);
      await expectRefusal(openTestJournal(folder), JournalUnavailable, words);
    } finally {
      Object.assign(ClassicLevel.prototype, { open });
    }
  }
  JournalStore.prototype.hideFiles = () => {
    throw Object.assign(new Error('EIO: i/o error, chmod'), { code: 'EIO' });
  };
  try {
    await expectRefusal(openTestJournal(folder), JournalUnavailable, /now: Input\/output error/);
  } finally {
    JournalStore.prototype.hideFiles = hideFiles;
  }
  await openTestJournal(folder);
});

test('dropped bytes are reported', async () => {
  const folder = journalFolder();
  const first = await openTestJournal(folder);
  await first.admit(recordOf('a'));
  await first.close();
  const [name] = readdirSync(folder).filter((each) => each.endsWith('.log'));
  const log = join(folder, name as string);
  const bytes = readFileSync(log);
  bytes.writeUInt8(bytes.readUInt8(bytes.length - 1) ^ 1, bytes.length - 1);
  writeFileSync(log, bytes);
  const dropped: number[] = [];
  const second = await openTestJournal(folder, { onDropped: (numBytes) => dropped.push(numBytes) });
  assert.equal([dropped.length, second.stats.numJobs], [1, 0]);
});

test('news that cannot be encoded fail the journal and not the gateway', async () => {
  const failures: unknown[] = [];
  const journal = await openTestJournal(journalFolder(), { onFailed: (error) => failures.push(error) });
  const job = await beginIn(journal, recordOf('a'));
  job.takeWrites = () => {
    throw new RangeError('No such number.');
  };
  journal.touch(job);
  await journal.flush();
  assert.equal([failures.map(String), journal.stats.isFailed], [['RangeError: No such number.'], true]);
});

test('once it cannot be written, it says so once, and takes no job', async () => {
  const failures: unknown[] = [];
  const folder = journalFolder();
  const journal = await openTestJournal(folder, { onFailed: (error) => failures.push(error) });
  const job = await beginIn(journal, recordOf('a'));
  const { write } = JournalStore.prototype;
  JournalStore.prototype.write = async () => {
    throw new Error('No space left on device.');
  };
  try {
    job.log.append({ firstIndex: 0, tokenIds: [1] });
    journal.touch(job);
    await journal.flush();
    const refusal = await expectRefusal(journal.admit(recordOf('b')), JournalRefusal, /cannot be written/);
    assert.is((refusal as JournalRefusal).reason, 'failed');
    await expectRefusal(journal.admit(recordOf('c')), JournalRefusal, /cannot be written/);
    job.log.append({ firstIndex: 1, tokenIds: [2] });
    journal.touch(job);
    await journal.flush();
    assert.match(String(failures[0]), /No space left/);
    assert.is(failures.length, 1);
    assert.ok(journal.stats.isFailed);
  } finally {
    JournalStore.prototype.write = write;
  }
  assert.equal(job.log.content.tokenIds, [1, 2], 'what runs goes on');
  await journal.close();
  await expectRefusal(journal.admit(recordOf('d')), JournalRefusal, /stopping/);
});

test.run();
