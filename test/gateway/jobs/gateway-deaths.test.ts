import * as assert from 'uvu/assert';
import type { DurableJob } from '../../../gateway/jobs/job.ts';
import { type GenerateRequest, GenerationError, type RunnerState } from '../../../gateway/runner/runner.ts';
import { EOS_ID } from '../../fixtures/byte-model.ts';
import { closingSuite } from '../../fixtures/closing-suite.ts';
import { type DurableApp, durableApp, journalFolder } from '../../fixtures/durable.ts';
import { type Act, ScriptedRunner } from '../../fixtures/scripted-runner.ts';
import { PATIENCE_MS, until } from '../../fixtures/within.ts';

/** Which jobs a gateway continues that follows one that died, and which it holds responsible for the death. */

const test = closingSuite('gateway-deaths');

/** Gateways over one folder, one after the other. Each dies with all that it has written. */
function gateways(scriptOf: (request: GenerateRequest) => readonly Act[]) {
  const folder = journalFolder();
  let current: DurableApp | undefined;
  return {
    async next(state: RunnerState = 'ready'): Promise<DurableApp> {
      await current?.journal.close();
      const runner = new ScriptedRunner();
      runner.current = { ...runner.current, state };
      runner.scriptOf = scriptOf;
      current = await durableApp(folder, { runner });
      return current;
    },
  };
}

const begin = (app: DurableApp, jobId: string, prompt = jobId): Promise<Response> =>
  app.post('/execute', { job_id: jobId, prompt, durable: true, seed: 1 });

async function jobOf(app: DurableApp, id: string): Promise<DurableJob> {
  const job = await app.jobs.open([''], id);
  assert.ok(job);
  return job;
}

const requested = (app: DurableApp, count: number): Promise<void> =>
  until(PATIENCE_MS, `${count} requests`, () => app.runner.requests.length === count);

/** Prompts of the requests that came to the runner. */
const prompts = ({ runner }: DurableApp): string[] =>
  runner.requests.map(({ promptIds }) => Buffer.from(promptIds).toString());

test('a job that was computed when two gateways died without a new token is failed, and its request quarantined', async () => {
  const { next } = gateways(() => [[65], 'wait']);
  const first = await next();
  first.runner.scriptOf = () => ['wait'];
  await begin(first, 'poison');
  await requested(first, 1);
  const second = await next();
  second.runner.scriptOf = () => ['wait'];
  await requested(second, 1);
  const third = await next();
  const { end } = (await jobOf(third, 'poison')).log.content;
  assert.ok(end?.kind === 'error');
  assert.is(end.error.code, 'RUNNER_CRASHED');
  assert.match(end.error.message, /^2 gateways in a row died/);
  assert.is(third.runner.requests.length, 0);
  const ahead = await third.app.request('/execute/poison/events', { headers: { 'last-event-id': '5' } });
  assert.match(await ahead.text(), /^id: 6\nevent: error\n/, 'a client that has more than the journal');
  assert.ok(third.lines().some(({ event }) => event === 'durable_lost'));
  const again = { max_tokens: 2048, temperature: 1, seed: 7 };
  for (const [path, body] of [
    ['/execute', { job_id: 'b', prompt: 'poison' }],
    ['/execute', { job_id: 'c', prompt: 'poison', durable: true }],
    ['/v1/completions', { model: 'bytes', prompt: 'poison', ...again, max_tokens: 506 }],
  ] as const) {
    const refused = await third.post(path, body);
    const text = await refused.text();
    assert.is(refused.status, 500, text);
    assert.match(text, /2 gateways in a row died/);
  }
  assert.is((await begin(third, 'other')).status, 200);
  const fourth = await next();
  assert.is((await jobOf(fourth, 'poison')).log.content.end?.kind, 'error', 'the end is kept');
});

test('a job that gets a token from each gateway is continued, however many die', async () => {
  const answer = [...Buffer.from('Hello'), EOS_ID];
  const { next } = gateways(({ resumeFrom }) => {
    const from = resumeFrom?.tokenIds.length ?? 0;
    return from < 5 ? [answer.slice(from, from + 1), 'wait'] : [answer.slice(from)];
  });
  let app = await next();
  await begin(app, 'a');
  for (const numTokens of [1, 2, 3, 4, 5]) {
    await until(PATIENCE_MS, 'A token', async () => (await jobOf(app, 'a')).log.length >= numTokens);
    app = await next();
  }
  await until(PATIENCE_MS, 'The end', async () => (await jobOf(app, 'a')).endedMs !== undefined);
  const { content } = (await jobOf(app, 'a')).log;
  assert.equal([content.tokenIds, content.end?.kind], [answer, 'finish']);
});

test('jobs that have no token of a gateway that died are continued first, one after the other has a token', async () => {
  const { next } = gateways(() => ['wait']);
  const first = await next();
  first.runner.scriptOf = ({ promptIds }) => (promptIds[0] === 'f'.charCodeAt(0) ? [[65], 'wait'] : ['wait']);
  for (const id of ['far', 'poison', 'good', 'better']) await begin(first, id);
  await requested(first, 4);
  await until(PATIENCE_MS, 'A token', async () => (await jobOf(first, 'far')).log.length === 1);
  const second = await next();
  await requested(second, 1);
  second.jobs.onServed();
  assert.equal(prompts(second), ['poison'], 'the others wait');
  const third = await next();
  third.runner.scriptOf = () => [[65], 'wait'];
  await requested(third, 3);
  assert.equal(prompts(third), ['good', 'better', 'far']);
  assert.is((await jobOf(third, 'poison')).log.content.end?.kind, 'error');
  for (const id of ['good', 'better']) assert.is((await jobOf(third, id)).endedMs, undefined);
});

test('a job without a token of a gateway that died, which is parked, holds up no other, and is continued alone once it is resumed', async () => {
  const { next } = gateways(() => ['wait']);
  const first = await next();
  first.runner.scriptOf = ({ promptIds }) => (promptIds[0] === 'f'.charCodeAt(0) ? [[65], 'wait'] : ['wait']);
  for (const id of ['far', 'poison', 'good']) await begin(first, id);
  await requested(first, 3);
  await until(PATIENCE_MS, 'A token', async () => (await jobOf(first, 'far')).log.length === 1);
  const second = await next();
  await requested(second, 1);
  await second.jobs.park([''], 'poison');
  await requested(second, 2);
  assert.equal(prompts(second), ['poison', 'good'], 'the next one without a token');
  await second.jobs.park([''], 'good');
  await requested(second, 3);
  assert.equal(prompts(second), ['poison', 'good', 'far']);
  for (const id of ['good', 'poison']) await second.jobs.resume([''], id);
  await requested(second, 4);
  second.jobs.onServed();
  assert.is(second.runner.requests.length, 4, 'one of them is continued, alone of the two');
  const third = await next();
  await until(PATIENCE_MS, 'The end', async () => {
    const ends = await Promise.all(['poison', 'good'].map(async (id) => (await jobOf(third, id)).endedMs));
    return ends.filter((endedMs) => endedMs !== undefined).length === 1;
  });
});

test('neither a wait for the model nor the end of a gateway that was told to end counts as a death', async () => {
  const { next } = gateways(() => ['wait']);
  const first = await next();
  await begin(first, 'a');
  await requested(first, 1);
  for (const _ of [1, 2, 3]) {
    const told = await next();
    await requested(told, 1);
    await told.jobs.stop();
  }
  for (const _ of [1, 2, 3]) assert.is((await next('starting')).runner.requests.length, 0);
  const last = await next();
  await requested(last, 1);
  assert.is((await jobOf(last, 'a')).endedMs, undefined);
});

test('deaths before a token of the job do not count with those after it, also if a gateway was told to end in between', async () => {
  let script: readonly Act[] = ['wait'];
  const { next } = gateways(() => script);
  const first = await next();
  await begin(first, 'a');
  await requested(first, 1);
  script = [[65], 'wait'];
  const told = await next();
  await until(PATIENCE_MS, 'A token', async () => (await jobOf(told, 'a')).log.length === 1);
  await told.jobs.stop();
  script = ['wait'];
  for (const _ of [1, 2]) {
    const app = await next();
    await requested(app, 1);
    assert.is((await jobOf(app, 'a')).endedMs, undefined);
  }
});

test('a job whose runner refuses it for now waits, and continues after its tokens', async () => {
  const answer = [...Buffer.from('Hello'), EOS_ID];
  const notReady = new GenerationError('NOT_READY', 'No runner comes.', { retriable: true });
  for (const cut of [0, 2]) {
    const { next } = gateways(({ resumeFrom }) =>
      resumeFrom === undefined && cut > 0 ? [answer.slice(0, cut), notReady] : [answer.slice(cut)],
    );
    const app = await next();
    if (cut === 0) {
      const { generate } = ScriptedRunner.prototype;
      app.runner.generate = () => {
        app.runner.generate = generate;
        throw notReady;
      };
    }
    const response = await begin(app, 'a');
    assert.is(response.status, 200);
    const text = await response.text();
    assert.match(text, /event: end/);
    assert.not.match(text, /event: error/);
    assert.equal((await jobOf(app, 'a')).log.content.tokenIds, answer);
    assert.ok(app.lines().some(({ event, msg }) => event === 'durable_waiting' && msg === notReady.message));
    const [last] = app.runner.requests.slice(-1);
    assert.equal(last?.resumeFrom?.tokenIds ?? [], answer.slice(0, cut));
  }
});

test('a job whose runner takes too long, or refuses it for good, ends with that', async () => {
  for (const error of [
    new GenerationError('TIMEOUT', 'Too late.', { retriable: true }),
    new GenerationError('INFERENCE_FAILED', 'No.', { retriable: false }),
  ]) {
    const { next } = gateways(() => [[65], error]);
    const app = await next();
    assert.match(await (await begin(app, 'a')).text(), new RegExp(`event: error\ndata: .*${error.message}`));
  }
});

test.run();
