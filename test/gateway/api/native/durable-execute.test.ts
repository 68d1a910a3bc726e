import * as assert from 'uvu/assert';
import { JournalStore } from '../../../../gateway/journal/store.ts';
import type { GenerateRequest } from '../../../../gateway/runner/runner.ts';
import { loopbackOnly } from '../../../../gateway/server/guard/guard.ts';
import { testApp } from '../../../fixtures/app.ts';
import { byteModel, EOS_ID } from '../../../fixtures/byte-model.ts';
import { closingSuite } from '../../../fixtures/closing-suite.ts';
import { durableApp, journalFolder } from '../../../fixtures/durable.ts';
import { keysOf } from '../../../fixtures/keys.ts';
import { readNativeAnswer } from '../../../fixtures/native-stream.ts';
import { ScriptedRunner, scriptedInfo } from '../../../fixtures/scripted-runner.ts';
import { readEvents, type SseEvent } from '../../../fixtures/sse.ts';
import { until } from '../../../fixtures/within.ts';

const PATIENCE_MS = 10_000;

const test = closingSuite('durable execute');

const bytes = (text: string): number[] => [...Buffer.from(text)];

async function eventsOf(response: Response): Promise<SseEvent[]> {
  assert.is(response.status, 200, response.ok ? '' : await response.clone().text());
  const events: SseEvent[] = [];
  for await (const event of readEvents(response)) events.push(event);
  return events;
}

/** undefined if the action did not reject. */
async function rejectionOf(action: () => Promise<void>): Promise<unknown> {
  try {
    await action();
  } catch (error) {
    return error;
  }
  return undefined;
}

const textOf = (events: readonly SseEvent[]): string =>
  events.flatMap(({ event, data }) => (event === 'token' ? [JSON.parse(data).t] : [])).join('');

test('a client that leaves a durable job does not end it, and one that comes while it runs hears the rest', async () => {
  const app = await durableApp(journalFolder());
  app.runner.script = [bytes('He'), { waitMs: 50 }, bytes('llo'), [EOS_ID]];
  const gone = await app.post('/execute', { job_id: 'a', prompt: 'Hi', durable: true });
  const reader = gone.body?.getReader();
  await reader?.read();
  await reader?.cancel();
  const headers = { 'last-event-id': '1' };
  const rest = await eventsOf(await app.app.request('/execute/a/events', { headers }));
  assert.is(textOf(rest), 'ello');
  assert.is(app.runner.cancelled, 0);
});

test('another process resumes after the stored tokens, and each event comes once', async () => {
  const folder = journalFolder();
  const first = await durableApp(folder);
  // At the cut, half of a character and the beginning of a stop string are held back.
  const answer = [...bytes('Où est-il? A'), ...bytes('BC'), EOS_ID];
  const cut = 2;
  first.runner.script = [answer.slice(0, cut), 'wait'];
  const body = { job_id: 'a', prompt: 'Hi', durable: true, seed: 7, stop: ['ABC'], token_ids: true };
  const events: SseEvent[] = [];
  const reading = rejectionOf(async () => {
    for await (const event of readEvents(await first.post('/execute', body))) events.push(event);
  });
  await until(PATIENCE_MS, 'The first text', () => events.length === 2);
  await first.jobs.stop();
  assert.match(String(await reading), /broken off/);
  assert.is(events.length, 2);

  const runner = new ScriptedRunner();
  runner.current = { ...runner.current, state: 'starting' };
  runner.scriptOf = ({ resumeFrom }: GenerateRequest) => [answer.slice(resumeFrom?.tokenIds.length ?? 0)];
  const second = await durableApp(folder, { runner });
  runner.current = { ...runner.current, state: 'ready' };
  second.jobs.onServed();
  const headers = { 'last-event-id': '1' };
  const rest = await eventsOf(await second.app.request('/execute/a/events', { headers }));
  assert.equal(runner.requests[0]?.resumeFrom, { tokenIds: answer.slice(0, cut), numericsId: 'scripted' });
  assert.equal(
    [...events, ...rest].map(({ id }) => Number(id)),
    [...events, ...rest].map((_, index) => index),
  );
  assert.is(textOf([...events, ...rest]), 'Où est-il? ');
  const { stop_reason, seed } = JSON.parse(rest.at(-1)?.data ?? '');
  assert.equal([stop_reason, seed], ['stop_sequence', 7]);
  assert.equal(await eventsOf(await second.get('/execute/a/events')), [...events, ...rest]);
  assert.ok(second.lines().some(({ event }) => event === 'durable_resumed'));
});

test('a job is not gone on with by another model or another arithmetic: it ends with an error that names both', async () => {
  for (const [changes, words] of [
    [{ modelIdentity: 'others' }, 'The model changed after this job began, from bytes to others'],
    [{ numericsId: 'i9' }, 'The numerics of the runner changed after this job began, from scripted to i9'],
  ] as const) {
    const folder = journalFolder();
    const first = await durableApp(folder);
    first.runner.script = [bytes('He'), 'wait'];
    await first.post('/execute', { job_id: 'a', prompt: 'Hi', durable: true });
    await until(PATIENCE_MS, 'The request', () => first.runner.requests.length === 1);
    await first.jobs.stop();
    const runner = new ScriptedRunner();
    runner.current = { ...runner.current, info: { ...scriptedInfo, ...changes } };
    const second = await durableApp(folder, { runner });
    const events = await eventsOf(await second.get('/execute/a/events'));
    const { code, message, retriable } = JSON.parse(events.at(-1)?.data ?? '');
    assert.equal([code, retriable], ['INFERENCE_FAILED', true]);
    assert.ok(message.startsWith(words), message);
    assert.is(runner.requests.length, 0);
  }
});

test('an answer whose model file has changed is not readable with the new file', async () => {
  const folder = journalFolder();
  const first = await durableApp(folder);
  first.runner.script = [[EOS_ID]];
  await readNativeAnswer(await first.post('/execute', { job_id: 'a', prompt: 'Hi', durable: true }));
  await first.jobs.stop();
  const second = await durableApp(folder, { model: () => ({ ...byteModel, file: 'other' }) });
  const response = await second.get('/execute/a/events');
  assert.is(response.status, 409);
  assert.is(((await response.json()) as { code: string }).code, 'MODEL_CHANGED');
});

test('POST /cancel ends a durable job, whoever reads it, and the next process knows', async () => {
  const folder = journalFolder();
  const first = await durableApp(folder);
  first.runner.script = [bytes('He'), 'wait'];
  const stream = eventsOf(await first.post('/execute', { job_id: 'a', prompt: 'Hi', durable: true }));
  await until(PATIENCE_MS, 'The request', () => first.runner.requests.length === 1);
  assert.is((await first.post('/cancel', { job_id: 'a' })).status, 202);
  const last = (await stream).at(-1);
  assert.is(JSON.parse(last?.data ?? '').code, 'CANCELLED');
  await first.jobs.stop();
  const second = await durableApp(folder);
  assert.equal((await eventsOf(await second.get('/execute/a/events'))).at(-1), last);
  assert.is(second.runner.requests.length, 0);
});

test('a cancel that comes while the record of a job is written ends the job, and the next process knows', async () => {
  const folder = journalFolder();
  const first = await durableApp(folder);
  first.runner.script = [bytes('He'), 'wait'];
  const { write } = JournalStore.prototype;
  let finishWrite = (): void => {};
  const mayFinish = new Promise<void>((resolve) => (finishWrite = resolve));
  let isWriting = false;
  JournalStore.prototype.write = async function (...args) {
    isWriting = true;
    await mayFinish;
    return write.apply(this, args);
  };
  try {
    const begun = first.post('/execute', { job_id: 'a', prompt: 'Hi', durable: true });
    await until(PATIENCE_MS, 'The write', () => isWriting);
    const cancel = first.post('/cancel', { job_id: 'a' });
    finishWrite();
    assert.is((await cancel).status, 202);
    const kept = first.journal.find('', 'a');
    assert.ok(kept?.endedMs !== undefined, 'the end is written when the cancel is answered');
    assert.is(JSON.parse((await eventsOf(await begun)).at(-1)?.data ?? '').code, 'CANCELLED');
  } finally {
    JournalStore.prototype.write = write;
  }
  await first.jobs.stop();
  const second = await durableApp(folder);
  assert.equal(second.journal.unfinished, []);
});

test('a job id that is kept is in use, and another key’s job is not there', async () => {
  const keys = ['first-key-of-a-client', 'other-key-of-a-client'];
  const guard = { ...loopbackOnly, apiKeys: keysOf(keys) };
  const app = await durableApp(journalFolder(), { guard });
  app.runner.script = [bytes('Hi'), [EOS_ID]];
  const [first, other] = keys.map((key) => ({ authorization: `Bearer ${key}` }));
  const body = { job_id: 'a', prompt: 'Hi', durable: true };
  await readNativeAnswer(await app.post('/execute', body, first));
  const again = await app.post('/execute', body, first);
  assert.is(again.status, 409);
  assert.is(((await again.json()) as { code: string }).code, 'JOB_ID_IN_USE');
  const hidden = await app.app.request('/execute/a/events', { headers: { ...other } });
  assert.is(hidden.status, 404);
  assert.is(((await hidden.json()) as { code: string }).code, 'JOB_NOT_FOUND');
  await readNativeAnswer(await app.post('/execute', body, other));
  const found = await app.app.request('/execute/a/events', { headers: { ...first } });
  assert.is((await eventsOf(found)).length, 4);
});

test('without a journal a durable job is refused by name, and a full one says so', async () => {
  const body = { job_id: 'a', prompt: 'Hi', durable: true };
  const none = await testApp().post('/execute', body);
  assert.is(none.status, 400);
  assert.match(await none.text(), /"field":"durable".*--journal-dir/);
  const app = await durableApp(journalFolder(), { maxJobs: 1 });
  app.runner.script = ['wait'];
  await app.post('/execute', body);
  const full = await app.post('/execute', { ...body, job_id: 'b' });
  assert.is(full.status, 503);
  assert.ok(Number(full.headers.get('retry-after')) > 0);
  const { code, message, retriable } = (await full.json()) as Record<string, unknown>;
  assert.equal([code, retriable], ['JOURNAL_FULL', true]);
  assert.match(String(message), /it has 1 jobs, and --journal-max-jobs is 1/);
  for (const name of ['metrics', 'timings']) {
    const both = await app.post('/execute', { ...body, [name]: true });
    assert.is(both.status, 400);
    assert.match(await both.text(), new RegExp(`${name} and durable exclude each other`));
  }
  const header = await app.app.request('/execute/a/events', { headers: { 'last-event-id': '-1' } });
  assert.is(header.status, 400);
  assert.match(await header.text(), /"field":"Last-Event-ID"/);
});

test('a job is kept with the name of its model, so that another process finds the model by it', async () => {
  const app = await durableApp(journalFolder(), { modelNames: ['served', 'other'] });
  app.runner.script = [[EOS_ID]];
  await readNativeAnswer(await app.post('/execute', { job_id: 'a', prompt: 'Hi', durable: true }));
  assert.is((await app.jobs.open([''], 'a'))?.record.model, 'served');
});

test.run();
