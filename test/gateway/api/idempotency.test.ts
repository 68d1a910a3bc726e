import * as assert from 'uvu/assert';
import { loopbackOnly } from '../../../gateway/server/guard/guard.ts';
import { EOS_ID } from '../../fixtures/byte-model.ts';
import { closingSuite } from '../../fixtures/closing-suite.ts';
import { type DurableApp, durableApp, journalFolder } from '../../fixtures/durable.ts';
import { keysOf } from '../../fixtures/keys.ts';
import { until } from '../../fixtures/within.ts';

/** The header Idempotency-Key: a repeated request gets the job of the first one, where a job is kept. */

const PATIENCE_MS = 10_000;

const test = closingSuite('Idempotency-Key');

const bytes = (text: string): number[] => [...Buffer.from(text)];
const JOB = { job_id: 'a', prompt: 'Hi', durable: true };
const RESPONSE = { model: 'bytes', input: 'Hi', background: true };
const keyed = (key: string, more: Record<string, string> = {}) => ({ 'idempotency-key': key, ...more });

function begun(app: DurableApp): DurableApp {
  app.runner.script = [bytes('He'), bytes('llo'), [EOS_ID]];
  return app;
}

async function ok(response: Response): Promise<string> {
  const body = await response.text();
  assert.is(response.status, 200, body);
  return body;
}

async function refusal(response: Response): Promise<{ status: number; body: string }> {
  return { status: response.status, body: await response.text() };
}

test('a durable job is begun once, and each request for it has all its events', async () => {
  const folder = journalFolder();
  const app = begun(await durableApp(folder));
  const first = await ok(await app.post('/execute', JOB, keyed('k')));
  assert.match(first, '"t":"l"');
  assert.is(await ok(await app.post('/execute', JOB, keyed('k'))), first);
  for (const [body, headers, code] of [
    [JOB, {}, 'JOB_ID_IN_USE'],
    [JOB, keyed('other'), 'JOB_ID_IN_USE'],
    [{ ...JOB, prompt: 'Ho' }, keyed('k'), 'IDEMPOTENCY_KEY_REUSED'],
    [{ ...JOB, job_id: 'b' }, keyed('k'), 'IDEMPOTENCY_KEY_REUSED'],
  ] as const) {
    const { status, body: text } = await refusal(await app.post('/execute', body, headers));
    assert.is(status, 409, text);
    assert.match(text, code);
  }
  assert.is(app.runner.requests.length, 1);
  await app.jobs.stop();
  const next = begun(await durableApp(folder));
  assert.is(await ok(await next.post('/execute', JOB, keyed('k'))), first, 'of a process before');
  const reused = await next.post('/execute', { ...JOB, job_id: 'b' }, keyed('k'));
  assert.is(reused.status, 409);
  assert.match(await reused.text(), 'IDEMPOTENCY_KEY_REUSED');
  assert.is(next.runner.requests.length, 0);
});

test('a background response is begun once, whole and streamed', async () => {
  const folder = journalFolder();
  const app = begun(await durableApp(folder));
  const idOf = (text: string): string => /resp_[0-9a-f-]{36}/.exec(text)?.[0] ?? '';
  const id = idOf(await ok(await app.post('/v1/responses', RESPONSE, keyed('k'))));
  await until(PATIENCE_MS, 'The end of the response', async () => {
    return (await ok(await app.get(`/v1/responses/${id}`))).includes('"completed"');
  });
  const again = await ok(await app.post('/v1/responses', RESPONSE, keyed('k')));
  assert.equal([idOf(again), JSON.parse(again).status], [id, 'completed']);
  const { status, body } = await refusal(
    await app.post('/v1/responses', { ...RESPONSE, input: 'Ho' }, keyed('k')),
  );
  assert.is(status, 409, body);
  assert.match(body, '"idempotency_key_reused"');
  assert.is.not(idOf(await ok(await app.post('/v1/responses', RESPONSE, keyed('j')))), id);
  assert.is(app.runner.requests.length, 2);
  const streamed = await ok(await app.post('/v1/responses', { ...RESPONSE, stream: true }, keyed('s')));
  assert.is(await ok(await app.post('/v1/responses', { ...RESPONSE, stream: true }, keyed('s'))), streamed);
  await app.jobs.stop();
  const next = begun(await durableApp(folder));
  assert.is(idOf(await ok(await next.post('/v1/responses', RESPONSE, keyed('k')))), id);
});

test('the first of two concurrent requests runs, and the other must retry', async () => {
  const app = begun(await durableApp(journalFolder()));
  const ask = () => app.post('/v1/responses', RESPONSE, keyed('k'));
  const [one, two] = await Promise.all([ask(), ask()]);
  assert.equal([one.status, two.status].sort(), [200, 409]);
  const [late] = [one, two].filter(({ status }) => status === 409);
  assert.match((await late?.text()) ?? '', '"idempotency_key_in_use"');
  assert.is(late?.headers.get('x-should-retry'), 'true');
  assert.is(app.runner.requests.length, 1);
});

test('a key of one client is not the key of another', async () => {
  const [one, two] = ['the-first-client-key', 'the-second-client-key'];
  const guard = { ...loopbackOnly, apiKeys: keysOf([one, two]) };
  const app = begun(await durableApp(journalFolder(), { guard }));
  const ids = new Set<string>();
  for (const client of [one, two, one]) {
    const text = await ok(await app.post('/v1/responses', RESPONSE, keyed('k', { 'x-api-key': client })));
    ids.add(JSON.parse(text).id);
    await ok(await app.post('/execute', JOB, keyed('k', { 'x-api-key': client })));
  }
  assert.is(ids.size, 2);
  assert.is(app.runner.requests.length, 4);
});

test('a key that is empty, too long or not plain is refused', async () => {
  const app = begun(await durableApp(journalFolder()));
  for (const key of ['', 'k'.repeat(256), 'é', 'a b'])
    for (const [path, body] of [
      ['/execute', JOB],
      ['/v1/responses', RESPONSE],
    ] as const) {
      const { status, body: text } = await refusal(await app.post(path, body, keyed(key)));
      assert.is(status, 400, text);
      assert.match(text, 'Idempotency-Key must have 1 to 255 visible ASCII characters');
      assert.ok(key.length < 9 || !text.includes(key));
    }
  assert.is(app.runner.requests.length, 0);
});

test.run();
