import * as assert from 'uvu/assert';
import { ApiKeys } from '../../../../gateway/server/guard/api-keys.ts';
import { loopbackOnly } from '../../../../gateway/server/guard/guard.ts';
import { testApp } from '../../../fixtures/app.ts';
import { closingSuite } from '../../../fixtures/closing-suite.ts';
import { callerNamed } from '../../../fixtures/keys.ts';
import { listening } from '../../../fixtures/listening.ts';
import { RawClient } from '../../../fixtures/raw-client.ts';
import { PATIENCE_MS, until } from '../../../fixtures/within.ts';

const test = closingSuite('bodies');

/** The port of an application with little room for bodies. */
async function served(apiKeys?: ApiKeys): Promise<number> {
  const guard = { ...loopbackOnly, apiKeys };
  const { app, runner } = testApp({ maxBodyBytes: 4000, maxBodyBytesInFlight: 10_000, guard });
  runner.script = [[97, 98]];
  return (await listening(app.fetch)).port;
}

/** Sends the header of a request, and no byte of its body. */
async function begin(port: number, length: string, path = '/execute', key = 'none'): Promise<RawClient> {
  const client = await RawClient.connect(port);
  const headers = ['Host: localhost', 'Content-Type: application/json', `Authorization: Bearer ${key}`];
  client.send(`POST ${path} HTTP/1.1`, ...headers, length, '', '');
  return client;
}

const CHUNKED = 'Transfer-Encoding: chunked';
const json = '{"job_id":"a","prompt":"x","max_tokens":2}';

function chunk(text: string): string {
  return `${text.length.toString(16)}\r\n${text}\r\n`;
}

test('more than there is room for is refused before it is sent, and taken when there is room again', async () => {
  const port = await served();
  const first = [];
  for (let i = 0; i < 2; i++) first.push(await begin(port, 'Content-Length: 4000'));
  await roomFor(port, 2001, false);
  for (const path of ['/execute', '/v1/completions', '/tokenize']) {
    const refused = await begin(port, 'Content-Length: 2001', path);
    assert.is(await refused.status(), 503);
    assert.match(refused.received, /retry-after: 1\r\n/i);
    await until(PATIENCE_MS, 'The reason', () =>
      refused.received.includes('8000 bytes of request bodies are held'),
    );
    refused.socket.destroy();
  }
  const small = await begin(port, 'Content-Length: 1900');
  small.send('{"job_id":"small","prompt":"x","max_tokens":2}'.padEnd(1900));
  assert.is(await small.status(), 200);
  // One client leaves and the other is answered. A body counts until then.
  first[0]?.socket.destroy();
  first[1]?.send('{'.padEnd(4000));
  assert.is(await first[1]?.status(), 400);
  await roomFor(port, 4000, true);
  const again = [];
  for (let i = 0; i < 2; i++) again.push(await begin(port, 'Content-Length: 4000'));
  await roomFor(port, 2001, false);
  for (const client of again) {
    client.send('{'.padEnd(4000));
    assert.is(await client.status(), 400);
  }
  for (const client of [small, ...again]) client.socket.destroy();
});

test('one caller’s bodies do not shut another one out, and no caller exceeds its quota', async () => {
  const [greedy, other, bounded] = ['key-of-the-greedy', 'key-of-the-other', 'key-of-the-bounded'];
  const keys = new ApiKeys([
    { key: greedy, caller: callerNamed('greedy'), place: 'Line 1' },
    { key: other, caller: callerNamed('other'), place: 'Line 2' },
    { key: bounded, caller: callerNamed('bounded', { quotas: { bodyBytes: 100 } }), place: 'Line 3' },
  ]);
  const length = (bytes: number) => `Content-Length: ${bytes}`;
  const port = await served(keys);
  const clients = [];
  for (let i = 0; i < 2; i++) clients.push(await begin(port, length(4000), '/execute', greedy));
  await until(PATIENCE_MS, 'A refusal', async () => {
    const client = await begin(port, length(2001), '/execute', greedy);
    client.send('{'.padEnd(2001));
    const status = await client.status();
    client.socket.destroy();
    return status === 503;
  });
  const small = await begin(port, length(3900), '/execute', other);
  small.send('{"job_id":"small","prompt":"x","max_tokens":2}'.padEnd(3900));
  assert.is(await small.status(), 200);
  const first = await begin(port, length(60), '/execute', bounded);
  await until(PATIENCE_MS, 'The reason', async () => {
    const client = await begin(port, length(41), '/execute', bounded);
    client.send('{'.padEnd(41));
    const isRefused = (await client.status()) === 503;
    client.socket.destroy();
    return (
      isRefused &&
      client.received.includes(
        'would take 101 bytes together, more than its quota of 100 (max-body-bytes in the keys file)',
      )
    );
  });
  for (const { socket } of [...clients, small, first]) socket.destroy();
});

test('a body that is larger than its caller’s quota is told that waiting does not help, and one that fills it is taken', async () => {
  const bounded = 'key-of-the-bounded';
  const caller = callerNamed('bounded', { quotas: { bodyBytes: 60 } });
  const port = await served(new ApiKeys([{ key: bounded, caller, place: 'Line 1' }]));
  const reason =
    'The body has more than 60 bytes, which is the quota of the caller \\"bounded\\" (max-body-bytes in the keys file).';
  for (const [length, body] of [
    ['Content-Length: 61', ''],
    [CHUNKED, chunk('{'.padEnd(61))],
  ] as const) {
    const refused = await begin(port, length, '/execute', bounded);
    refused.socket.write(body);
    assert.is(await refused.status(), 413);
    assert.not.match(refused.received, /retry-after/i);
    await until(PATIENCE_MS, 'The reason', () => refused.received.includes(reason));
    refused.socket.destroy();
  }
  const whole = await begin(port, CHUNKED, '/execute', bounded);
  for (const part of [json.slice(0, 35), json.slice(35).padEnd(25)]) whole.send(chunk(part));
  whole.send('0', '', '');
  assert.is(await whole.status(), 200);
  whole.socket.destroy();
});

test('bodies in chunks count as much as was read of them: eighty small ones at once are all taken', async () => {
  const port = await served();
  const clients = [];
  for (let i = 0; i < 80; i++) {
    const client = await begin(port, CHUNKED);
    client.send(chunk(json.replace('"a"', `"${i}"`)));
    clients.push(client);
  }
  for (const client of clients) client.send('0', '', '');
  for (const client of clients) assert.is(await client.status(), 200);
  for (const client of clients) client.socket.destroy();
});

test('a body in chunks is refused where it becomes more than there is room for, and what was read of it is given up', async () => {
  const port = await served();
  const held = [];
  for (let i = 0; i < 3; i++) {
    const client = await begin(port, CHUNKED);
    client.send(chunk('{'.padEnd(3000)));
    held.push(client);
  }
  await roomFor(port, 1001, false);
  const last = await begin(port, CHUNKED);
  last.send(chunk('{'.padEnd(900)));
  last.send(chunk(' '.padEnd(900)));
  assert.is(await last.status(), 503);
  assert.match(last.received, /connection: close\r\n/i);
  await roomFor(port, 1000, true);
  for (const client of held) {
    client.send('0', '', '');
    assert.is(await client.status(), 400);
  }
  await roomFor(port, 4000, true);
  for (const client of [last, ...held]) client.socket.destroy();
});

test('a body that comes byte by byte is the one that was sent', async () => {
  const port = await served();
  const client = await begin(port, CHUNKED);
  for (const byte of json) client.send(chunk(byte));
  client.send('0', '', '');
  await until(PATIENCE_MS, 'The end', () => client.received.includes('event: end'));
  assert.match(client.received, '"tokens_out":2');
  client.socket.destroy();
});

/** Waits until a body of this size is accepted, or refused. */
async function roomFor(port: number, bytes: number, isThere: boolean): Promise<void> {
  await until(PATIENCE_MS, isThere ? 'Room' : 'No room', async () => {
    const probe = await begin(port, `Content-Length: ${bytes}`, '/cancel');
    const isRefused = await Promise.race([probe.status().then((status) => status === 503), soon()]);
    probe.socket.destroy();
    await probe.closed();
    return isRefused !== isThere;
  });
}

function soon(): Promise<false> {
  return new Promise((resolve) => setTimeout(() => resolve(false), 100));
}

test('a request without a body is never refused for want of room', async () => {
  const port = await served();
  const open = [];
  for (let i = 0; i < 2; i++) open.push(await begin(port, 'Content-Length: 4000'));
  await roomFor(port, 2001, false);
  const health = await fetch(`http://127.0.0.1:${port}/health`);
  assert.is(health.status, 200);
  await health.text();
  for (const client of open) client.socket.destroy();
});

test.run();
