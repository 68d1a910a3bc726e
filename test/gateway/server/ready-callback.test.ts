import * as assert from 'uvu/assert';
import { ReadyCallback, type ReadyMessage } from '../../../gateway/server/ready-callback.ts';
import { createLog, type Log } from '../../../gateway/telemetry/log.ts';
import { closingSuite } from '../../fixtures/closing-suite.ts';
import { PoolManager } from '../../fixtures/pool-manager.ts';
import { PATIENCE_MS, within } from '../../fixtures/within.ts';

const test = closingSuite('ready callback');

const message: ReadyMessage = {
  worker_id: 'w-1',
  vram_bytes: 0,
  uri: 'http://127.0.0.1:8080',
  memory_bytes: 8_000_000_000,
  memory_type: 'cpu',
  memory_architecture: 'cpu',
  model_ref: 'bytes',
  worker_type: 'cpu',
  capabilities: ['text-gen'],
};

async function failureOf(url: string, timeoutMs?: number): Promise<string> {
  const callback = new ReadyCallback(url, createLog('silent'), timeoutMs);
  await within(PATIENCE_MS, 'the end of the callback', callback.send(message));
  return (await within(PATIENCE_MS, 'the failure', callback.failed)).message;
}

test('the callback is one POST of who, how much memory and where, and is not repeated', async () => {
  const manager = await PoolManager.open();
  for (const status of [200, 204]) {
    manager.received.length = 0;
    manager.status = status;
    const callback = new ReadyCallback(manager.url, createLog('silent'));
    await callback.send(message);
    await callback.send(message);
    assert.equal(manager.received, [{ method: 'POST', type: 'application/json', body: { ...message } }]);
  }
});

test('a callback that is refused fails with the status and is not tried again', async () => {
  const manager = await PoolManager.open();
  for (const status of [302, 404, 500, 503]) {
    manager.status = status;
    assert.is(await failureOf(manager.url), `Pool manager callback failed: ${status}`);
  }
  assert.is(manager.received.length, 4);
});

test('a pool manager that is not there, or never answers, is a failure in bounded time', async () => {
  const manager = await PoolManager.open();
  assert.match(await failureOf('http://127.0.0.1:1/'), /^Pool manager callback failed: .+/);
  manager.status = undefined;
  assert.is(await failureOf(manager.url, 50), 'Pool manager callback failed: no answer within 50 ms');
});

test('an answer whose body breaks off is an answer', async () => {
  const { fetch } = globalThis;
  const cancel = () => Promise.reject(new TypeError('terminated'));
  globalThis.fetch = async () => new Response(new ReadableStream({ cancel }), { status: 200 });
  try {
    const lines: string[] = [];
    const log = createLog('info', undefined, { write: (line) => void lines.push(line) });
    await new ReadyCallback('http://127.0.0.1:1/ready', log).send(message);
    assert.is(JSON.parse(lines[0] ?? '{}').event, 'callback_sent');
  } finally {
    globalThis.fetch = fetch;
  }
});

test('test mode: nobody is called at localhost:9999, and everybody elsewhere, whatever else the URL says', async () => {
  const manager = await PoolManager.open();
  const lines: { event: string; msg?: string; status?: number }[] = [];
  const log = { info: (line: { event: string }) => lines.push(line) } as unknown as Log;
  for (const url of ['http://localhost:9999', 'http://LOCALHOST:9999/callback', 'https://localhost:9999/'])
    await new ReadyCallback(url, log).send(message);
  const skipped = { event: 'callback_skipped', msg: 'Test mode: skipping pool manager callback' };
  assert.equal(lines.splice(0), [skipped, skipped, skipped]);
  await new ReadyCallback(undefined, log).send(message);
  assert.is(lines.length, 0);
  for (const more of ['?from=localhost:9999', '/localhost:9999'])
    await new ReadyCallback(manager.url + more, log).send(message);
  assert.is(manager.received.length, 2);
  const sent = { event: 'callback_sent', status: 200 };
  assert.equal(lines, [sent, sent]);
});

test.run();
