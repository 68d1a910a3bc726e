import { setImmediate as nextTurn } from 'node:timers/promises';
import * as assert from 'uvu/assert';
import type { DurableJob } from '../../../gateway/jobs/job.ts';
import type { JournalOptions } from '../../../gateway/journal/journal.ts';
import { unpackStart } from '../../../gateway/journal/records.ts';
import { JournalStore } from '../../../gateway/journal/store.ts';
import { type GenerateRequest, GenerationError, type TokenSink } from '../../../gateway/runner/runner.ts';
import { GATHER_MS, KEEP_ALIVE_INTERVAL_MS } from '../../../gateway/server/streams/stream-times.ts';
import { EOS_ID } from '../../fixtures/byte-model.ts';
import { closeLater, closingSuite } from '../../fixtures/closing-suite.ts';
import { type DurableApp, durableApp, journalFolder } from '../../fixtures/durable.ts';
import { ScriptedRunner } from '../../fixtures/scripted-runner.ts';
import { VirtualClock } from '../../fixtures/virtual-clock.ts';
import { PATIENCE_MS, until } from '../../fixtures/within.ts';

/** Jobs that are parked: a runner holds nothing of them, and they go on with the next token wherever they are resumed. */

/** More than any job of these tests takes. */
const MOST_TURNS = 500;
/** More promises than a resumption waits for. */
const MOST_PROMISES = 40;
const ANSWER = [...Buffer.from('Hello.'), EOS_ID];

const test = closingSuite('parking');

/** Answers a token a turn. It never computes a job twice at once. */
class CountingRunner extends ScriptedRunner {
  /** The most tokens that an answer has before it waits. */
  pauseAt = Number.POSITIVE_INFINITY;
  readonly #open = new Map<string, GenerateRequest>();

  constructor() {
    super();
    this.scriptOf = ({ resumeFrom }) => {
      const from = resumeFrom?.tokenIds.length ?? 0;
      const acts = ANSWER.slice(from, this.pauseAt).map((id) => [id]);
      return this.pauseAt < ANSWER.length ? [...acts, 'wait'] : acts;
    };
  }

  get numOpen(): number {
    return this.#open.size;
  }

  override generate(request: GenerateRequest, sink: TokenSink) {
    const prompt = String(request.promptIds);
    const handle = super.generate(request, {
      onTokens: (batch) => {
        if (batch.finish !== undefined) this.#open.delete(prompt);
        sink.onTokens(batch);
      },
      onError: (error) => {
        this.#open.delete(prompt);
        sink.onError(error);
      },
    });
    assert.not(this.#open.has(prompt), 'a job is computed once at a time');
    this.#open.set(prompt, request);
    const cancel: typeof handle.cancel = (reason) => {
      this.#open.delete(prompt);
      handle.cancel(reason);
    };
    return { cancel, pause: () => handle.pause(), resume: () => handle.resume() };
  }
}

interface Begun extends DurableApp {
  readonly runner: CountingRunner;
}

async function appOver(
  folder: string,
  pauseAt = Number.POSITIVE_INFINITY,
  changes: Partial<JournalOptions> = {},
): Promise<Begun> {
  const runner = new CountingRunner();
  runner.pauseAt = pauseAt;
  return { ...(await durableApp(folder, { runner, ...changes })), runner };
}

const begin = (app: DurableApp, id = 'a'): Promise<Response> =>
  app.post('/execute', { job_id: id, prompt: id, durable: true, seed: 1 });

async function jobOf(app: DurableApp, id = 'a'): Promise<DurableJob> {
  const job = await app.jobs.open([''], id);
  assert.ok(job);
  return job;
}

interface Told {
  readonly status: number;
  readonly body: Record<string, unknown>;
}

async function told(asked: Response | Promise<Response>): Promise<Told> {
  const { status } = await asked;
  return { status, body: (await (await asked).json()) as Record<string, unknown> };
}

const park = (app: DurableApp, id = 'a'): Promise<Told> =>
  told(app.app.request(`/jobs/${id}/park`, { method: 'POST' }));
const resume = (app: DurableApp, id = 'a'): Promise<Told> =>
  told(app.app.request(`/jobs/${id}/resume`, { method: 'POST' }));

/** What a client may rely on: not the times. */
const plain = (events: string): string =>
  events.replace(/"decode_time_ms":\d+/, '').replace(/"started_at":"[^"]+"/, '');

async function undisturbed(): Promise<string> {
  const events = plain(await (await begin(await appOver(journalFolder()))).text());
  assert.match(events, /event: end/);
  return events;
}

const turns = async (count: number): Promise<void> => {
  for (let turn = 0; turn < count; turn += 1) await nextTurn();
};

/** What the client of a stream has read when it breaks off or ends. */
async function readAll(response: Response, onText: (text: string) => void = () => {}): Promise<string> {
  let text = '';
  try {
    for await (const bytes of response.body as unknown as AsyncIterable<Uint8Array>) {
      text += Buffer.from(bytes).toString();
      onText(text);
    }
  } catch (error) {
    assert.instance(error, Error);
  }
  return text;
}

test('a job that is parked after any number of its tokens goes on in its process with the next one, on the same stream', async () => {
  const whole = await undisturbed();
  for (let cut = 0; cut < ANSWER.length; cut += 1) {
    const app = await appOver(journalFolder(), cut);
    const events = readAll(await begin(app));
    await until(PATIENCE_MS, `${cut} tokens`, () => app.runner.numAtWait === 1);
    const parked = await park(app);
    assert.equal([parked.status, parked.body.status, parked.body.tokens_out], [200, 'parked', cut]);
    assert.is(app.runner.numOpen, 0);
    app.jobs.onServed();
    await turns(5);
    assert.is(app.runner.requests.length, 1, 'nobody computes it');
    app.runner.pauseAt = ANSWER.length;
    const resumed = await resume(app);
    assert.is(resumed.status, 200);
    assert.is(plain(await events), whole, `parked after ${cut} tokens`);
    assert.equal(app.runner.requests[1]?.resumeFrom?.tokenIds ?? [], ANSWER.slice(0, cut));
  }
});

test('a job that is parked after any number of its tokens is still parked in the next process, and goes on there with the next one', async () => {
  const whole = await undisturbed();
  for (let cut = 0; cut < ANSWER.length; cut += 1)
    for (const end of ['stopped', 'killed']) {
      const folder = journalFolder();
      const first = await appOver(folder, cut);
      const reading = readAll(await begin(first));
      await until(PATIENCE_MS, `${cut} tokens`, () => first.runner.numAtWait === 1);
      await park(first);
      if (end === 'stopped') await first.jobs.stop();
      else await first.journal.close();
      const second = await appOver(folder);
      second.jobs.onServed();
      await turns(5);
      assert.equal([second.runner.requests.length, (await jobOf(second)).job.state], [0, 'parked']);
      assert.is(second.jobs.stats?.numParked, 1);
      const before = end === 'stopped' ? await reading : '';
      const last = [...before.matchAll(/^id: (\d+)$/gm)].at(-1)?.[1];
      const headers: Record<string, string> = last === undefined ? {} : { 'last-event-id': last };
      const rest = second.app.request('/jobs/a/events', { headers });
      await resume(second);
      assert.is(plain(before + (await (await rest).text())), whole, `${end} after ${cut} tokens`);
      assert.is(second.jobs.stats?.numParked, 0);
    }
});

test('a job that is parked and resumed after any number of turns of the loop has the same events', async () => {
  const whole = await undisturbed();
  let numParked = 0;
  let isEnded = false;
  for (let turn = 0; turn < MOST_TURNS; turn += 1) {
    const app = await appOver(journalFolder());
    const events = begin(app).then((response) => readAll(response));
    await turns(turn);
    const { status, body } = await park(app);
    if (status === 409) {
      assert.is(body.code, 'JOB_ENDED');
      assert.is(plain(await events), whole);
      isEnded = true;
      break;
    }
    if (status === 404) {
      assert.is(plain(await events), whole, 'it had not come yet');
      continue;
    }
    assert.equal([status, app.runner.numOpen], [200, 0]);
    numParked += 1;
    await turns(turn % 5);
    await resume(app);
    assert.is(plain(await events), whole, `parked after ${turn} turns`);
  }
  assert.ok(isEnded && numParked > ANSWER.length, `${numParked} places`);
});

test('a job that is parked and resumed again and again, between any two promises of its resumption, is computed once and has the same events', async () => {
  const whole = await undisturbed();
  const app = await appOver(journalFolder(), 3);
  const events = readAll(await begin(app));
  await until(PATIENCE_MS, '3 tokens', () => app.runner.numAtWait === 1);
  for (let numPromises = 0; numPromises < MOST_PROMISES; numPromises += 1) {
    const parking = app.jobs.park([''], 'a');
    for (let passed = 0; passed < numPromises; passed += 1) await undefined;
    const resuming = app.jobs.resume([''], 'a');
    for (let passed = 0; passed < numPromises; passed += 1) await undefined;
    const again = app.jobs.park([''], 'a');
    await Promise.all([parking, resuming, again]);
    assert.equal(
      [app.runner.numOpen, (await jobOf(app)).job.state],
      [0, 'parked'],
      `${numPromises} promises`,
    );
    assert.ok((await again)?.job.state === 'parked');
  }
  app.runner.pauseAt = ANSWER.length;
  await resume(app);
  assert.is(plain(await events), whole);
});

test('a job that is parked and resumed while its start is being written is begun only after another start of it is written', async () => {
  const { write } = JournalStore.prototype;
  const app = await appOver(journalFolder(), 3);
  await begin(app);
  await until(PATIENCE_MS, '3 tokens', () => app.runner.numAtWait === 1);
  const { key } = (await jobOf(app)).entry;
  await park(app);
  const starts: number[] = [];
  let release = (): void => {};
  let isHeld = false;
  JournalStore.prototype.write = async function (writes, isSynced) {
    for (const each of writes)
      if (each.key === `${key}s` && each.type === 'put') starts.push(unpackStart(each.value).numStarts);
    if (starts.at(-1) === 1 && !isHeld) {
      isHeld = true;
      await new Promise<void>((resolve) => {
        release = resolve;
      });
    }
    return write.call(this, writes, isSynced);
  };
  closeLater(() => {
    JournalStore.prototype.write = write;
  });
  void resume(app);
  await until(PATIENCE_MS, 'The write of a start', () => isHeld);
  const both = [park(app), resume(app)];
  release();
  await Promise.all(both);
  await until(PATIENCE_MS, 'The second request', () => app.runner.requests.length === 2);
  assert.equal(starts.slice(-2), [0, 1], 'the parking took the first one back');
});

test('what a runner sends of a job that it was to forget is not taken', async () => {
  const app = await appOver(journalFolder(), 3);
  let late: TokenSink | undefined;
  const { generate } = app.runner;
  app.runner.generate = (request, sink) => {
    late = sink;
    return generate.call(app.runner, request, sink);
  };
  await begin(app);
  await until(PATIENCE_MS, '3 tokens', () => app.runner.numAtWait === 1);
  await park(app);
  late?.onTokens({ firstIndex: 3, tokenIds: ANSWER.slice(3, 4) });
  late?.onError(new GenerationError('NOT_READY', 'Too late.', { retriable: true }));
  const { job, log } = await jobOf(app);
  assert.equal([job.state, log.length], ['parked', 3]);
});

test('the stream of a parked job stays open, on comments', async () => {
  const clock = new VirtualClock();
  const app = await appOver(journalFolder(), 2, { clock });
  let text = '';
  void readAll(await begin(app), (read) => {
    text = read;
  });
  await until(PATIENCE_MS, '2 tokens', () => app.runner.numAtWait === 1);
  await app.jobs.park([''], 'a');
  for (const count of [1, 2, 3]) {
    await until(PATIENCE_MS, `Comment ${count}`, () => {
      clock.pass(KEEP_ALIVE_INTERVAL_MS);
      return text.split('\n: keep-alive').length > count;
    });
  }
  app.runner.pauseAt = ANSWER.length;
  await app.jobs.resume([''], 'a');
  await until(PATIENCE_MS, 'The end', () => {
    clock.pass(GATHER_MS);
    return text.includes('event: end');
  });
});

test('a journal that cannot be written has no job parked, and the request says so', async () => {
  const { write } = JournalStore.prototype;
  const app = await appOver(journalFolder(), 2, { onFailed: () => {} });
  await begin(app);
  await until(PATIENCE_MS, '2 tokens', () => app.runner.numAtWait === 1);
  JournalStore.prototype.write = () => Promise.reject(new Error('No space left on device'));
  closeLater(() => {
    JournalStore.prototype.write = write;
  });
  app.journal.touch(await jobOf(app));
  await app.journal.flush();
  for (const how of ['park', 'resume']) {
    const { status, body } = await told(app.app.request(`/jobs/a/${how}`, { method: 'POST' }));
    assert.equal([status, body.code], [503, 'JOURNAL_FAILED']);
  }
  assert.is((await jobOf(app)).job.state, 'running');
});

test('an operator parks all jobs of a model, those that run and those that wait, and resumes them', async () => {
  const app = await appOver(journalFolder(), 2);
  for (const id of ['a', 'b', 'c']) await begin(app, id);
  await until(PATIENCE_MS, 'Their tokens', () => app.runner.numAtWait === 3);
  await park(app, 'b');
  assert.equal(await told(app.post('/runner/park', { model: 'bytes' })), {
    status: 200,
    body: { parked: 2 },
  });
  assert.equal([app.runner.numOpen, app.jobs.numParked], [0, 3]);
  assert.equal(await told(app.post('/runner/park', {})), { status: 200, body: { parked: 0 } });
  app.runner.pauseAt = ANSWER.length;
  assert.equal(await told(app.post('/runner/resume', {})), { status: 200, body: { resumed: 3 } });
  for (const id of ['a', 'b', 'c'])
    await until(PATIENCE_MS, `The end of ${id}`, async () => (await jobOf(app, id)).endedMs !== undefined);
});

test.run();
