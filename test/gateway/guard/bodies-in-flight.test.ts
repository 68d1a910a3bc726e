import { once } from 'node:events';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { close, createHttpServer, listen } from '../../../gateway/ops/http-server.ts';
import { testApp } from '../../fixtures/app.ts';
import { httpLimits } from '../../fixtures/http-limits.ts';
import { RawClient } from '../../fixtures/raw-client.ts';
import { until, within } from '../../fixtures/within.ts';

const test = suite('bodies in flight');
const patienceMs = 10_000;

async function served(run: (port: number) => Promise<void>): Promise<void> {
  const { app, runner } = testApp({ maxBodyBytes: 4000, maxBodyBytesInFlight: 10_000 });
  runner.script = [[97, 98]];
  const server = createHttpServer(app.fetch, httpLimits);
  const address = await listen(server, { host: '127.0.0.1', port: 0 });
  try {
    await run('port' in address ? address.port : 0);
  } finally {
    server.closeAllConnections();
    await close(server);
  }
}

/** A request that has sent its header and no byte of its body. */
async function begin(port: number, length: string, path = '/execute'): Promise<RawClient> {
  const client = await RawClient.connect(port);
  client.send(`POST ${path} HTTP/1.1`, 'Host: localhost', 'Content-Type: application/json', length, '', '');
  return client;
}

test('more than there is room for is refused before it is sent, and taken when there is room again', async () => {
  await served(async (port) => {
    const lengths = ['Content-Length: 4000', 'Transfer-Encoding: chunked'];
    const first = [];
    for (const length of lengths) first.push(await begin(port, length));
    await settled(port, 503);
    for (const path of ['/execute', '/v1/completions', '/tokenize']) {
      const refused = await begin(port, 'Content-Length: 2001', path);
      assert.is(await refused.status(), 503);
      assert.match(refused.received, /retry-after: 1\r\n/i);
      await until(patienceMs, 'The reason', () =>
        refused.received.includes('8000 bytes of request bodies are held'),
      );
      refused.socket.destroy();
    }
    const small = await begin(port, 'Content-Length: 1900');
    small.send('{"job_id":"small","prompt":"x","max_tokens":2}'.padEnd(1900));
    assert.is(await small.status(), 200);
    // One leaves, the other one is answered: a body counts until then.
    first[0]?.socket.destroy();
    first[1]?.send('1', '{', '0', '', '');
    assert.is(await first[1]?.status(), 400);
    await settled(port, 413);
    const again = [];
    for (let i = 0; i < 2; i++) again.push(await begin(port, 'Content-Length: 4000'));
    await settled(port, 503);
    for (const client of again) {
      client.send('{'.padEnd(4000));
      assert.is(await client.status(), 400);
    }
    for (const client of [small, ...again]) client.socket.destroy();
  });
});

/** Until a body of 2,001 bytes is refused as too many, or one of 10,000 as too long because there is room for 4,000. */
async function settled(port: number, status: 503 | 413): Promise<void> {
  await until(patienceMs, `A ${status}`, async () => {
    const probe = await begin(port, `Content-Length: ${status === 503 ? 2001 : 10_000}`, '/cancel');
    // One that there is room for waits for its body.
    const isAnswered = await Promise.race([probe.status().then((got) => got === status), soon()]);
    probe.socket.destroy();
    await within(patienceMs, 'The end of the probe', once(probe.socket, 'close'));
    return isAnswered;
  });
}

function soon(): Promise<false> {
  return new Promise((resolve) => setTimeout(() => resolve(false), 100));
}

test('a request without a body is never refused for want of room', async () => {
  await served(async (port) => {
    const open = [];
    for (let i = 0; i < 2; i++) open.push(await begin(port, 'Content-Length: 4000'));
    await settled(port, 503);
    const health = await fetch(`http://127.0.0.1:${port}/health`);
    assert.is(health.status, 200);
    await health.text();
    for (const client of open) client.socket.destroy();
  });
});

test.run();
