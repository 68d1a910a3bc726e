import * as assert from 'uvu/assert';
import { JournalStore } from '../../../gateway/journal/store.ts';
import { AdmissionGate } from '../../../gateway/models/admission-gate.ts';
import type { GenerateRequest } from '../../../gateway/runner/runner.ts';
import { openGate } from '../../fixtures/app.ts';
import { EOS_ID } from '../../fixtures/byte-model.ts';
import { closingSuite } from '../../fixtures/closing-suite.ts';
import { type DurableApp, durableApp, journalFolder } from '../../fixtures/durable.ts';
import { readNativeAnswer } from '../../fixtures/native-stream.ts';
import { ScriptedRunner } from '../../fixtures/scripted-runner.ts';
import { ScriptedModels } from '../../fixtures/scripted-service.ts';
import { thinkingModel } from '../../fixtures/thinking-model.ts';
import { VirtualClock } from '../../fixtures/virtual-clock.ts';
import { PATIENCE_MS, until, within } from '../../fixtures/within.ts';

/** What is no request and its answer: requests at the same time, and what a job keeps. The rest is in test/wire. */

const test = closingSuite('durable jobs by the APIs');

const bytes = (text: string): number[] => [...Buffer.from(text)];
const job = { job_id: 'a', prompt: 'Hi', durable: true };
const response = { model: 'bytes', input: 'Hi', background: true };

const completion = { model: 'bytes', prompt: 'Hi', durable: true };

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
    const begun = first.post('/execute', job);
    await until(PATIENCE_MS, 'The write', () => isWriting);
    const cancel = first.post('/cancel', { job_id: 'a' });
    finishWrite();
    assert.is((await cancel).status, 202);
    const kept = first.journal.find('', 'a');
    assert.ok(kept?.endedMs !== undefined, 'the end is written when the cancel is answered');
    assert.is((await readNativeAnswer(await begun)).last.data.code, 'CANCELLED');
  } finally {
    JournalStore.prototype.write = write;
  }
  await first.jobs.stop();
  const second = await durableApp(folder);
  assert.equal(second.journal.unfinished, []);
});

test('a job is kept with the name of its model, so that another process finds the model by it', async () => {
  const app = await durableApp(journalFolder(), { modelNames: ['served', 'other'] });
  app.runner.script = [[EOS_ID]];
  await readNativeAnswer(await app.post('/execute', job));
  assert.is((await app.jobs.open([''], 'a'))?.record.model, 'served');
});

test('another process resumes a response with its thinking budget', async () => {
  const folder = journalFolder();
  const model = thinkingModel(() => 'Hi<think>');
  const first = await durableApp(folder, { model: () => model });
  first.runner.script = [bytes('Hm'), 'wait'];
  const body = { ...response, stream: true, thinking_token_budget: 7 };
  let told = '';
  for await (const chunk of (await first.post('/v1/responses', body)).body ?? []) {
    told += Buffer.from(chunk).toString();
    if (told.includes('"delta":"m"')) break;
  }
  const [begun] = first.runner.requests;
  await first.jobs.stop();
  const second = await durableApp(folder, { model: () => model });
  await until(PATIENCE_MS, 'The request', () => second.runner.requests.length === 1);
  const [resumed] = second.runner.requests;
  assert.equal(resumed?.resumeFrom?.tokenIds, bytes('Hm'));
  for (const { thinkingLimit: limit } of [begun, resumed] as GenerateRequest[]) {
    assert.equal([limit?.maxTokens, limit?.endIds], [7, bytes('</think>')]);
    assert.equal(
      ['Hm', 'Hm</think', 'Hm</think>'].map((text) => limit?.isThinking(bytes(text))),
      [true, true, false],
    );
  }
});

test('the first of two concurrent requests with an Idempotency-Key runs, and the other must retry', async () => {
  const app = await durableApp(journalFolder());
  app.runner.script = [bytes('Hello'), [EOS_ID]];
  const ask = () => app.post('/v1/responses', response, { 'idempotency-key': 'k' });
  const [one, two] = await Promise.all([ask(), ask()]);
  assert.equal([one.status, two.status].sort(), [200, 409]);
  const [late] = [one, two].filter(({ status }) => status === 409);
  assert.match((await late?.text()) ?? '', '"idempotency_key_in_use"');
  assert.is(late?.headers.get('x-should-retry'), 'true');
  assert.is(app.runner.requests.length, 1);
});

test('a durable call that names none of several models gets 404 each time it is sent, and leaves no job', async () => {
  const { registry: models } = new ScriptedModels({ a: 60, b: 60 });
  const app = await durableApp(journalFolder(), { models });
  for (let time = 0; time < 2; time += 1) {
    const body = { ...response, model: 'nope' };
    const { status, headers } = await app.post('/v1/responses', body, { 'idempotency-key': 'k' });
    assert.equal([status, headers.get('x-runnel-job-id')], [404, null]);
  }
});

test('an answer that is not streamed goes on if its client leaves, from a running job or a parked one, and its Idempotency-Key gets it', async () => {
  for (const leavesFrom of ['running', 'parked']) {
    const app = await durableApp(journalFolder());
    app.runner.scriptOf = ({ resumeFrom }) =>
      resumeFrom === undefined ? [bytes('H'), 'wait'] : [bytes('i'), [EOS_ID]];
    const client = new AbortController();
    const first = app.app.request('/v1/completions', {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'idempotency-key': 'k' },
      body: JSON.stringify(completion),
      signal: client.signal,
    });
    await until(PATIENCE_MS, 'The first token', () => app.runner.numAtWait === 1);
    const { id = '' } = app.journal.unfinished[0] ?? {};
    const change = (how: string) => app.post(`/jobs/${id}/${how}`, '');
    if (leavesFrom === 'parked') await change('park');
    client.abort();
    await first;
    const { status } = (await (await app.get(`/jobs/${id}`)).json()) as { status: string };
    assert.equal([status, app.runner.cancelled], [leavesFrom, 0]);
    const again = app.post('/v1/completions', completion, { 'idempotency-key': 'k' });
    await change('park');
    await change('resume');
    const answered = await within(PATIENCE_MS, 'The answer', again);
    assert.is(answered.headers.get('x-runnel-job-id'), id);
    const { choices } = (await answered.json()) as { choices: readonly { text: string }[] };
    assert.is(choices[0]?.text, 'Hi');
    assert.is(app.jobs.stats?.numRunning, 0);
  }
});

test('a client that waits for the whole answer of a job keeps no model from being replaced or unloaded', async () => {
  const gate = openGate();
  const app = await durableApp(journalFolder(), { gate });
  app.runner.script = [bytes('H'), 'wait'];
  const asked = app.post('/v1/completions', completion);
  await until(PATIENCE_MS, 'The first token', () => app.runner.numAtWait === 1);
  assert.is(gate.numInside, 0);
  await app.post('/cancel', { job_id: app.journal.unfinished[0]?.id });
  await asked;
});

test('a job of an earlier process that ends while its Idempotency-Key is looked up is answered whole', async () => {
  const folder = journalFolder();
  const ask = (app: DurableApp) => app.post('/v1/completions', completion, { 'idempotency-key': 'k' });
  const first = await durableApp(folder);
  first.runner.script = [bytes('H'), 'wait'];
  const left = ask(first);
  await until(PATIENCE_MS, 'The first token', () => first.runner.numAtWait === 1);
  await first.jobs.stop();
  assert.is((await left).status, 503);
  const runner = new ScriptedRunner();
  runner.script = [bytes('i'), [EOS_ID]];
  const second = await durableApp(folder, { runner });
  const { journal, jobs } = second;
  const read = journal.read.bind(journal);
  journal.read = async (entry) => {
    const kept = await read(entry);
    await until(
      PATIENCE_MS,
      'The end',
      () => journal.unfinished.length === 0 && jobs.stats?.numRunning === 0,
    );
    return kept;
  };
  const answered = await within(PATIENCE_MS, 'The answer', ask(second));
  assert.match(await answered.text(), '"text":"Hi"');
});

test('a durable call waits for its model for as long as jobs are kept, and others for the time limit of requests', async () => {
  const clock = new VirtualClock();
  const now = () => clock.now();
  const [maxWaitMs, keepMs] = [60_000, 3_600_000];
  const gate = new AdmissionGate({ maxWaiting: 8, maxWaitMs, now, clock, onRefused: () => {} });
  gate.close();
  const app = await durableApp(journalFolder(), { gate, clock, now, keepMs, monotonicNow: now });
  app.runner.script = [[EOS_ID]];
  const statusOf = async (body: object) => (await app.post('/v1/completions', body)).status;
  /** Both wait until others would wait no longer. */
  const begin = async () => {
    const [durable, plain] = [statusOf(completion), statusOf({ ...completion, durable: false })];
    await until(PATIENCE_MS, 'The requests', () => gate.numWaiting === 2);
    clock.pass(maxWaitMs);
    assert.equal([await plain, gate.numWaiting], [504, 1]);
    return { durable };
  };
  const late = await begin();
  clock.pass(keepMs - maxWaitMs);
  assert.is(await late.durable, 504);
  const served = await begin();
  clock.pass(keepMs - maxWaitMs - 1);
  gate.open();
  assert.is(await served.durable, 200);
});

test.run();
