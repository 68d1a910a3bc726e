import { setImmediate as nextTurn } from 'node:timers/promises';
import * as assert from 'uvu/assert';
import { Jobs, reopenMs } from '../../../gateway/jobs/jobs.ts';
import { keyOf, pieceKey } from '../../../gateway/journal/entry.ts';
import type { Journal } from '../../../gateway/journal/journal.ts';
import { JournalUnavailable } from '../../../gateway/journal/journal-error.ts';
import { packPiece } from '../../../gateway/journal/records.ts';
import { JournalStore } from '../../../gateway/journal/store.ts';
import { AdmissionGate } from '../../../gateway/models/admission-gate.ts';
import { cancelled } from '../../../gateway/runner/runner.ts';
import { createLog } from '../../../gateway/telemetry/log.ts';
import { oneModel, testApp } from '../../fixtures/app.ts';
import { byteModel, EOS_ID } from '../../fixtures/byte-model.ts';
import { closeLater, closingSuite } from '../../fixtures/closing-suite.ts';
import { durableApp, journalFolder, openTestJournal, recordOf } from '../../fixtures/durable.ts';
import { ScriptedRunner } from '../../fixtures/scripted-runner.ts';
import { VirtualClock } from '../../fixtures/virtual-clock.ts';
import { PATIENCE_MS, until } from '../../fixtures/within.ts';

const MAX_WAIT_MS = 30_000;
const KEEP_MS = 100_000;

const emptyPiece = {
  tokenIds: [1, 2],
  logprobs: undefined,
  first: undefined,
  continuations: [],
  end: undefined,
};

const test = closingSuite('durable-jobs');

/** A process that has just started, with the job "a" of an earlier one, whose model is not ready. */
async function resumed(changes: { readonly deadlineMs?: number } = {}) {
  const folder = journalFolder();
  const clock = new VirtualClock();
  const now = () => clock.now();
  const before = await openTestJournal(folder);
  const plain = recordOf('a', { createdMs: now() });
  await before.admit({ ...plain, request: { ...plain.request, ...changes } });
  await before.close();
  const journal = await openTestJournal(folder, { now, clock });
  const runner = new ScriptedRunner();
  runner.script = [[72, EOS_ID]];
  const gate = new AdmissionGate({ maxWaiting: 8, maxWaitMs: MAX_WAIT_MS, now, clock, onRefused: () => {} });
  gate.close();
  const lines: string[] = [];
  const log = createLog('info', undefined, { write: (line) => void lines.push(line) });
  const models = oneModel(() => byteModel, runner, gate);
  const jobs = new Jobs({ models, log, now, clock });
  closeLater(() => jobs.stop());
  await jobs.begin(async () => journal, KEEP_MS);
  const job = await jobs.open([''], 'a');
  assert.ok(job);
  await until(PATIENCE_MS, 'The wait', () => gate.numWaiting === 1);
  const logged = (event: string) => lines.some((line) => JSON.parse(line).event === event);
  return { jobs, job, journal, gate, runner, clock, logged };
}

/** Waits, with the time passing. */
function untilBy(clock: VirtualClock, what: string, condition: () => boolean): Promise<void> {
  return until(PATIENCE_MS, what, () => {
    clock.pass(100);
    return condition();
  });
}

test('a job goes on, however long its model takes to be ready', async () => {
  const { job, gate, runner, clock, logged } = await resumed();
  for (const _ of [1, 2]) {
    clock.pass(MAX_WAIT_MS);
    await untilBy(clock, 'The next wait', () => gate.numWaiting === 1);
  }
  assert.is(job.endedMs, undefined);
  gate.open();
  await untilBy(clock, 'The end', () => job.endedMs !== undefined);
  assert.is(job.log.content.end?.kind, 'finish');
  assert.is(runner.requests.length, 1);
  assert.ok(logged('durable_resumed'));
  assert.not(logged('durable_lost'));
});

test('a job whose own deadline passes while it waits for its model has that as its end', async () => {
  const { job, clock, runner } = await resumed({ deadlineMs: 5000 });
  await untilBy(clock, 'The end', () => job.endedMs !== undefined);
  const { end } = job.log.content;
  assert.ok(end?.kind === 'error');
  assert.is(end.error.code, 'TIMEOUT');
  assert.match(end.error.message, /deadline/);
  assert.is(runner.requests.length, 0);
});

test('a job that is not resumed within the time for which jobs are kept is given up', async () => {
  const { job, clock, runner, logged } = await resumed();
  clock.pass(KEEP_MS);
  await untilBy(clock, 'The end', () => job.endedMs !== undefined);
  const { end } = job.log.content;
  assert.ok(end?.kind === 'error');
  assert.match(end.error.message, /not finished within 100 s.*--journal-keep-sec/);
  assert.is(runner.requests.length, 0);
  assert.ok(logged('durable_lost'));
});

for (const [what, end] of [
  ['cancelled', 'cancel'],
  ['deleted', 'forget'],
] as const)
  test(`a job that is ${what} while it waits for its model is not computed`, async () => {
    const { jobs, job, gate, runner, logged } = await resumed();
    await jobs[end]([''], 'a', cancelled());
    assert.ok(job.endedMs !== undefined);
    gate.open();
    await nextTurn();
    assert.is(runner.requests.length, 0);
    assert.not(logged('durable_resumed'));
    assert.is(jobs.stats?.numRunning, 0);
  });

test('a job that is parked while it waits for its model gives up its place, and is not computed before it is resumed', async () => {
  const { jobs, job, gate, runner, clock } = await resumed();
  await jobs.park([''], 'a');
  assert.equal([gate.numWaiting, job.job.state], [0, 'parked']);
  gate.open();
  jobs.onServed();
  await nextTurn();
  assert.is(runner.requests.length, 0);
  gate.close();
  await jobs.resume([''], 'a');
  await until(PATIENCE_MS, 'The wait', () => gate.numWaiting === 1);
  gate.open();
  await untilBy(clock, 'The end', () => job.endedMs !== undefined);
  assert.is(job.log.content.end?.kind, 'finish');
});

test('a parked job that is not resumed within the time for which jobs are kept is given up; one that is resumed has that time again', async () => {
  const { jobs, job, gate, clock, runner, logged } = await resumed();
  for (const _ of [1, 2]) {
    await jobs.park([''], 'a');
    clock.pass(KEEP_MS - 1);
    await jobs.resume([''], 'a');
    clock.pass(KEEP_MS / 2);
    await untilBy(clock, 'The wait', () => gate.numWaiting === 1);
  }
  await jobs.park([''], 'a');
  assert.is(job.endedMs, undefined);
  clock.pass(KEEP_MS);
  await untilBy(clock, 'The end', () => job.endedMs !== undefined);
  const { end } = job.log.content;
  assert.ok(end?.kind === 'error');
  assert.match(end.error.message, /not resumed within 100 s.*--journal-keep-sec/);
  assert.equal([end.error.code, runner.requests.length, jobs.numParked], ['TIMEOUT', 0, 0]);
  assert.ok(logged('durable_lost'));
});

test('while the disk refuses to open the journal, jobs are refused, and go on once it can be opened', async () => {
  const folder = journalFolder();
  const before = await durableApp(folder);
  before.runner.script = ['wait'];
  await before.post('/execute', { job_id: 'a', prompt: 'Hi', durable: true });
  await before.jobs.stop();
  const clock = new VirtualClock();
  const runner = new ScriptedRunner();
  runner.script = [[72, EOS_ID]];
  const lines: string[] = [];
  const log = createLog('info', undefined, { write: (line) => void lines.push(line) });
  const models = oneModel(() => byteModel, runner);
  const jobs = new Jobs({ models, log, now: Date.now, clock });
  closeLater(() => jobs.stop());
  let isFull = true;
  let numTries = 0;
  await jobs.begin(async () => {
    numTries += 1;
    if (isFull) throw new JournalUnavailable('The journal cannot be opened now: No space left on device.');
    return openTestJournal(folder);
  }, KEEP_MS);
  const { post, get } = testApp({ jobs, runner });
  for (const refused of [
    await post('/execute', { job_id: 'b', prompt: 'Hi', durable: true }),
    await get('/execute/a/events'),
    await get('/v1/responses/resp_1'),
  ]) {
    assert.is(refused.status, 503);
    assert.is(refused.headers.get('retry-after'), String(reopenMs / 1000));
    assert.match(await refused.text(), /The journal cannot be opened now/);
  }
  assert.is(jobs.stats?.isFailed, true);
  runner.script = ['wait'];
  assert.is((await post('/execute', { job_id: 'c', prompt: 'Hi' })).status, 200);
  assert.is((await post('/cancel', { job_id: 'c' })).status, 202, 'a plain job is in no journal');
  assert.is((await post('/cancel', { job_id: 'a' })).status, 503, 'a durable one may be');
  await until(PATIENCE_MS, 'The cancel', () => runner.cancelled === 1);
  runner.script = [[72, EOS_ID]];
  await untilBy(clock, 'Another try', () => numTries > 2);
  isFull = false;
  await untilBy(clock, 'The journal', () => !jobs.stats?.isFailed);
  const events = await (await get('/execute/a/events')).text();
  assert.match(events, /event: end/);
  const logged = lines.map((line) => JSON.parse(line).event);
  assert.is(logged.filter((event) => event === 'journal_unavailable').length, 1);
});

/** Begins as a gateway whose disk has refused its journal once, with the jobs "a" and "b" of an earlier one. Reading "b" waits. */
async function readingLate() {
  const folder = journalFolder();
  const before = await openTestJournal(folder);
  for (const id of ['a', 'b'])
    await before.admit(recordOf(id, { createdMs: Date.now(), modelFile: byteModel.file }));
  await before.close();
  const clock = new VirtualClock();
  const runner = new ScriptedRunner();
  runner.script = [[72, EOS_ID]];
  const jobs = new Jobs({
    models: oneModel(() => byteModel, runner),
    log: createLog('silent'),
    now: Date.now,
    clock,
  });
  closeLater(() => jobs.stop());
  let isFirst = true;
  let isReading = false;
  let goOn = (): void => {};
  const held = new Promise<void>((resolve) => (goOn = resolve));
  closeLater(() => goOn());
  const openStore = async (path: string): Promise<JournalStore> => {
    const store = await JournalStore.open(path);
    const { get } = store;
    store.get = async (key) => {
      if (key.startsWith(keyOf(2)) && !isReading) {
        isReading = true;
        await held;
      }
      return get.call(store, key);
    };
    return store;
  };
  await jobs.begin(async () => {
    if (!isFirst) return openTestJournal(folder, { openStore });
    isFirst = false;
    throw new JournalUnavailable('Not now.');
  }, KEEP_MS);
  await untilBy(clock, 'The reading', () => isReading);
  return { folder, jobs, goOn, ...testApp({ jobs, runner }) };
}

test('while the jobs of a journal that opened late are read, none is given, cancelled, parked or deleted, and then all go on', async () => {
  const { jobs, runner, goOn, app, get, post } = await readingLate();
  for (const refused of [
    await get('/jobs/a'),
    await get('/jobs/b/events'),
    await post('/cancel', { job_id: 'b' }),
    await app.request('/jobs/b/park', { method: 'POST' }),
    await app.request('/jobs/a', { method: 'DELETE' }),
    await post('/execute', { job_id: 'b', prompt: 'Hi', durable: true }),
  ])
    assert.is(refused.status, 503);
  goOn();
  await until(PATIENCE_MS, 'The journal', () => !jobs.stats?.isFailed);
  for (const id of ['a', 'b']) assert.match(await (await get(`/jobs/${id}/events`)).text(), /event: end/);
  assert.is(runner.requests.length, 2);
});

test('a gateway that stops while the jobs of a journal are read leaves them to the next one', async () => {
  const { folder, jobs, runner, goOn } = await readingLate();
  await jobs.stop();
  goOn();
  // The lock of the folder is free once the journal is closed.
  let next: Journal | undefined;
  await until(PATIENCE_MS, 'The end of the journal', async () => {
    next ??= await openTestJournal(folder).catch(() => undefined);
    return next !== undefined;
  });
  assert.equal(
    next?.unfinished.map(({ id }) => id),
    ['a', 'b'],
  );
  assert.is(runner.requests.length, 0);
});

for (const [what, event, isKept, spoil] of [
  ['that a newer version has written', 'journal_entry_unknown', true, () => Uint8Array.of(0xc0)],
  ['whose tokens have a gap', 'journal_entry_damaged', false, () => packPiece(emptyPiece, 1)],
] as const)
  test(`an unfinished job ${what} is named${isKept ? ' and stays in the journal' : ' and removed'}; the others go on`, async () => {
    const folder = journalFolder();
    const before = await openTestJournal(folder);
    const changes = { createdMs: Date.now(), modelFile: byteModel.file };
    const a = await before.admit(recordOf('a', changes));
    await before.admit(recordOf('b', changes));
    await before.close();
    const store = await JournalStore.open(folder);
    await store.write([{ type: 'put', key: pieceKey(a, 0), value: spoil() }]);
    await store.close();
    const runner = new ScriptedRunner();
    runner.script = [[72, EOS_ID]];
    const first = await durableApp(folder, { runner });
    assert.match(await (await first.get('/jobs/b/events')).text(), /event: end/);
    assert.is((await first.get('/jobs/a')).status, 404);
    const named = first.lines().filter((line) => line.job_id === 'a');
    assert.equal(
      named.map((line) => line.event),
      [event],
    );
    await first.jobs.stop();
    const after = await JournalStore.open(folder);
    assert.is((await after.get(pieceKey(a, 0))) !== undefined, isKept);
    await after.close();
  });

test('a gateway that stops while the disk refuses to open the journal leaves it alone', async () => {
  const clock = new VirtualClock();
  const log = createLog('silent');
  const models = oneModel(() => byteModel, new ScriptedRunner());
  const jobs = new Jobs({ models, log, now: Date.now, clock });
  let numTries = 0;
  await jobs.begin(async () => {
    numTries += 1;
    throw new JournalUnavailable('Not now.');
  }, KEEP_MS);
  await jobs.stop();
  clock.pass(10 * reopenMs);
  await nextTurn();
  assert.is(numTries, 1);
});

test('a gateway that stops confirms no cancel and no deletion of a durable job, which the next one has', async () => {
  const folder = journalFolder();
  const first = await durableApp(folder);
  first.runner.script = ['wait'];
  await first.post('/execute', { job_id: 'a', prompt: 'Hi', durable: true });
  const remove = { method: 'DELETE' };
  const stopped = first.jobs.stop();
  for (const when of ['while it stops', 'when it has stopped']) {
    for (const refused of [
      await first.post('/cancel', { job_id: 'a' }),
      await first.app.request('/jobs/a', remove),
      await first.post('/execute', { job_id: 'b', prompt: 'Hi', durable: true }),
      await first.get('/jobs/b'),
    ]) {
      assert.is(refused.status, 503, when);
      assert.is(refused.headers.get('retry-after'), '1');
      assert.match(await refused.text(), /The server is stopping/);
    }
    await stopped;
  }
  const next = await durableApp(folder);
  next.runner.script = ['wait'];
  await until(PATIENCE_MS, 'The job', () => next.runner.requests.length === 1);
  assert.is((await next.app.request('/jobs/a', remove)).status, 200);
  await until(PATIENCE_MS, 'Its end', () => next.runner.cancelled === 1);
  assert.is((await next.get('/jobs/a')).status, 404);
});

test('a cancel and a deletion that the disk refuses are not confirmed, and the next gateway has the job', async () => {
  const folder = journalFolder();
  const failures: unknown[] = [];
  const first = await durableApp(folder, { onFailed: (error) => failures.push(error) });
  first.runner.scriptOf = ({ promptIds }) =>
    promptIds.includes('#'.charCodeAt(0)) ? [[72, EOS_ID]] : ['wait'];
  for (const id of ['cancelled', 'deleted'])
    await first.post('/execute', { job_id: id, prompt: 'Hi', durable: true });
  const { id: kept } = (await (await first.post('/v1/responses', { model: 'bytes', input: '#' })).json()) as {
    id: string;
  };
  const { write } = JournalStore.prototype;
  JournalStore.prototype.write = async () => {
    throw new Error('No space left on device.');
  };
  const remove = { method: 'DELETE' };
  try {
    for (const time of ['first', 'second'])
      for (const refused of [
        await first.post('/cancel', { job_id: 'cancelled' }),
        await first.app.request('/jobs/deleted', remove),
        await first.app.request(`/v1/responses/${kept}`, remove),
      ]) {
        assert.is(refused.status, 503, time);
        assert.match(await refused.text(), /journal_failed/i, time);
      }
    assert.is(first.runner.cancelled, 2, 'both have ended here');
    assert.match(await (await first.get('/jobs/deleted/events')).text(), /CANCELLED/);
    assert.is((await first.get(`/v1/responses/${kept}`)).status, 200);
    assert.is(
      (await first.post('/cancel', { job_id: 'unknown' })).status,
      202,
      'there is nothing to keep of it',
    );
    assert.is(failures.length, 1);
    await first.jobs.stop();
  } finally {
    JournalStore.prototype.write = write;
  }
  const next = await durableApp(folder);
  next.runner.script = [[72, EOS_ID]];
  await until(PATIENCE_MS, 'The jobs', () => next.runner.requests.length === 2);
  assert.is((await next.app.request('/jobs/deleted', remove)).status, 200);
  assert.is((await next.app.request(`/v1/responses/${kept}`, remove)).status, 200);
  assert.is((await next.get(`/v1/responses/${kept}`)).status, 404);
});

test('a job that is forgotten while it is read, since another one needs its room, is not there', async () => {
  let goOn = (): void => {};
  let isReading = false;
  const openStore = async (folder: string): Promise<JournalStore> => {
    const store = await JournalStore.open(folder);
    const { get } = store;
    store.get = async (key) => {
      if (isReading && key.startsWith(keyOf(1))) await new Promise<void>((resolve) => (goOn = resolve));
      return get.call(store, key);
    };
    return store;
  };
  const { runner, post, get, journal } = await durableApp(journalFolder(), { maxJobs: 1, openStore });
  runner.script = [[72, EOS_ID]];
  await (await post('/execute', { job_id: 'a', prompt: 'Hi', durable: true })).text();
  await journal.flush();
  isReading = true;
  const read = get('/jobs/a');
  await nextTurn();
  isReading = false;
  await (await post('/execute', { job_id: 'b', prompt: 'Hi', durable: true })).text();
  goOn();
  assert.is((await read).status, 404);
});

test('a cancel that comes while the disk takes the record of a job is its end, and nothing is computed', async () => {
  let goOn = (): void => {};
  let isHeld = false;
  const openStore = async (path: string): Promise<JournalStore> => {
    const store = await JournalStore.open(path);
    const { write } = store;
    store.write = async (...args) => {
      if (!isHeld && args[0].some(({ key }) => key === `${keyOf(1)}r`)) {
        isHeld = true;
        await new Promise<void>((resolve) => (goOn = resolve));
      }
      return write.apply(store, args);
    };
    return store;
  };
  const folder = journalFolder();
  const first = await durableApp(folder, { openStore });
  const begun = first.post('/execute', { job_id: 'a', prompt: 'Hi', durable: true });
  await until(PATIENCE_MS, 'The write', () => isHeld);
  const cancelling = first.post('/cancel', { job_id: 'a' });
  await nextTurn();
  goOn();
  assert.match(await (await begun).text(), /event: error\ndata: .*CANCELLED/);
  assert.is((await cancelling).status, 202);
  await first.jobs.stop();
  const next = await durableApp(folder);
  const { status, error } = (await (await next.get('/jobs/a')).json()) as {
    status: string;
    error: { code: string };
  };
  assert.equal([status, error.code], ['ended', 'CANCELLED']);
  assert.equal([first.runner.requests.length, next.runner.requests.length], [0, 0]);
});

test('a durable request that waits for its model when the gateway stops is told to try the next one', async () => {
  const waiting = { maxWaiting: 1, maxWaitMs: MAX_WAIT_MS, now: Date.now, onRefused: () => {} };
  const gate = new AdmissionGate(waiting);
  gate.close();
  const jobs = new Jobs({
    models: oneModel(() => byteModel, new ScriptedRunner(), gate),
    log: createLog('silent'),
    now: Date.now,
  });
  const { post } = testApp({ jobs, gate });
  await jobs.begin(() => openTestJournal(journalFolder()), KEEP_MS);
  const asked = post('/execute', { job_id: 'a', prompt: 'Hi', durable: true });
  await until(PATIENCE_MS, 'The wait', () => gate.numWaiting === 1);
  await jobs.stop();
  const refused = await asked;
  assert.equal([refused.status, refused.headers.get('retry-after')], [503, '1']);
  assert.match(await refused.text(), /The server is stopping/);
});

test('a job that a stopping gateway leaves to the next one is not computed', async () => {
  const { jobs, gate, runner } = await resumed();
  gate.open();
  await jobs.stop();
  await nextTurn();
  assert.is(runner.requests.length, 0);
});

test.run();
