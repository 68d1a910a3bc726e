import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { close, createHttpServer, listen } from '../../../gateway/server/http-server.ts';
import { addTable, connectionKey, readUnacknowledged } from '../../../gateway/server/unacknowledged.ts';
import { testApp } from '../../fixtures/app.ts';
import { httpLimits } from '../../fixtures/http-limits.ts';
import { programFile } from '../../fixtures/programs.ts';
import { RawClient } from '../../fixtures/raw-client.ts';
import { type ScriptedRunner, scriptedInfo } from '../../fixtures/scripted-runner.ts';
import { wideModel } from '../../fixtures/wide-model.ts';
import { until, within } from '../../fixtures/within.ts';

const test = suite('stalled clients');
const PATIENCE_MS = 20_000;
const STALL_MS = 500;

interface Served {
  readonly runner: ScriptedRunner;
  readonly port: number;
  /** The bytes held for each client that was given up. */
  readonly heldBytes: number[];
}

async function served(run: (served: Served) => Promise<void>): Promise<void> {
  const { app, runner } = testApp({ model: () => wideModel(10_000) });
  runner.current = { ...runner.current, info: { ...scriptedInfo, maxModelLen: 4096 } };
  const heldBytes: number[] = [];
  const limits = { ...httpLimits, clientStallTimeoutMs: STALL_MS };
  const server = createHttpServer(app.fetch, limits, { onStalled: (bytes) => heldBytes.push(bytes) });
  const address = await listen(server, { host: '127.0.0.1', port: 0 });
  try {
    await run({ runner, port: 'port' in address ? address.port : 0, heldBytes });
  } finally {
    server.closeAllConnections();
    await close(server);
  }
}

/** A few tokens at a time, so that the loop reaches its timers in between. */
const long = Array.from({ length: 256 }, () => [new Array(8).fill(97), { waitMs: 1 }]).flat();
const longBody = { job_id: 'a', prompt: 'x', max_tokens: 2048 };

test('a client that does not read is cut, its request cancelled, and little is held for it', async () => {
  await served(async ({ runner, port, heldBytes }) => {
    runner.script = long;
    const client = await RawClient.connect(port);
    client.socket.pause();
    client.post('/execute', longBody);
    await until(PATIENCE_MS, 'The cut', () => heldBytes.length === 1);
    assert.ok((heldBytes[0] ?? 0) <= 256 * 1024, `${heldBytes} bytes are held for one client`);
    await until(PATIENCE_MS, 'The cancel', () => runner.cancelled === 1);
    client.socket.resume();
    await client.closed();
  });
});

test('one that reads slowly is not, and neither is one that waits for tokens', async () => {
  await served(async ({ runner, port, heldBytes }) => {
    runner.scriptOf = ({ maxTokens }) => (maxTokens === 1 ? ['wait'] : long);
    const waiting = await RawClient.connect(port);
    waiting.post('/execute', { job_id: 'b', prompt: 'x', max_tokens: 1 });
    const slow = await RawClient.connect(port);
    slow.socket.pause();
    slow.post('/execute', longBody);
    const begin = performance.now();
    await until(PATIENCE_MS, 'Three times the limit', async () => {
      // Reads something four times within each limit.
      slow.socket.resume();
      await new Promise((resolve) => setTimeout(resolve, 5));
      slow.socket.pause();
      await new Promise((resolve) => setTimeout(resolve, STALL_MS / 4));
      return performance.now() - begin > 3 * STALL_MS;
    });
    assert.equal(heldBytes, []);
    assert.not(slow.isClosed || waiting.isClosed);
  });
});

test('one that reads a large answer slowly is not cut, though it was written at once', async () => {
  const heldBytes: number[] = [];
  const large = 'x'.repeat(2 ** 26);
  const limits = { ...httpLimits, clientStallTimeoutMs: STALL_MS };
  const server = createHttpServer(() => new Response(large), limits, {
    onStalled: (bytes) => heldBytes.push(bytes),
  });
  const address = await listen(server, { host: '127.0.0.1', port: 0 });
  const client = await RawClient.connect('port' in address ? address.port : 0);
  try {
    client.socket.pause();
    client.send('GET / HTTP/1.1', 'Host: localhost', '', '');
    const begin = performance.now();
    await until(PATIENCE_MS, 'Three times the limit', async () => {
      client.socket.once('data', () => client.socket.pause()).resume();
      await new Promise((resolve) => setTimeout(resolve, STALL_MS / 20));
      return performance.now() - begin > 3 * STALL_MS;
    });
    assert.equal(heldBytes, []);
    assert.not(client.isClosed);
    assert.ok(client.received.length < large.length / 2, 'most of it is still to be written');
    await until(PATIENCE_MS, 'The cut, when it reads no more', () => heldBytes.length === 1);
  } finally {
    client.socket.destroy();
    server.closeAllConnections();
    await close(server);
  }
});

test('a request that came behind another one on its connection is watched like the first', async () => {
  await served(async ({ runner, port, heldBytes }) => {
    runner.script = long;
    const client = await RawClient.connect(port);
    client.socket.pause();
    client.send('GET /health HTTP/1.1', 'Host: localhost', '', '');
    client.post('/execute', longBody);
    await until(PATIENCE_MS, 'The cut', () => heldBytes.length === 1);
    await until(PATIENCE_MS, 'The cancel', () => runner.cancelled === 1);
    client.socket.destroy();
  });
});

test('requests that wait behind another one end with their connection', async () => {
  await served(async ({ runner, port }) => {
    runner.script = [[97], 'wait'];
    const client = await RawClient.connect(port);
    for (const job_id of ['a', 'b', 'c']) client.post('/execute', { job_id, prompt: 'x', max_tokens: 9 });
    await until(PATIENCE_MS, 'The requests', () => runner.requests.length === 3);
    await until(PATIENCE_MS, 'A token', () => client.received.includes('event: token'));
    client.socket.destroy();
    await until(PATIENCE_MS, 'The cancels', () => runner.cancelled === 3);
  });
});

/** The result of a command in a network namespace of its own, whose loopback interface it may take down. */
function inOwnNetwork(...command: string[]): { status: number | null; stdout: string; stderr: string } {
  const { error, ...result } = spawnSync('unshare', ['-Urn', ...command], { encoding: 'utf8' });
  return error === undefined ? result : { ...result, stderr: error.message };
}

const attempt = inOwnNetwork('ip', 'link', 'set', 'lo', 'up');
if (attempt.status !== 0) console.log(`SKIPPED: no client can vanish here: ${attempt.stderr}`);
const vanishingTest = attempt.status === 0 ? test : test.skip;

vanishingTest(
  'a client that is gone without a word is noticed, whether something is being sent to it or not',
  () => {
    const { stdout, stderr, status } = inOwnNetwork(process.execPath, programFile('vanishing-clients'));
    assert.is(status, 0, stderr);
    const tookMs = JSON.parse(stdout) as number[];
    assert.is(tookMs.length, 2);
    // The kernel would wait a quarter of an hour for the one, and two hours for the other.
    for (const ms of tookMs) assert.ok(ms < 20_000, `one took ${ms} ms`);
  },
);

test('what a receiver has not acknowledged is found, by every kind of address', async () => {
  for (const [listening, connecting] of [
    ['127.0.0.1', '127.0.0.1'],
    ['::1', '::1'],
    ['::', '127.0.0.1'],
  ] as const) {
    const server = createServer().listen(0, listening);
    await once(server, 'listening');
    const bound = server.address();
    if (bound === null || typeof bound === 'string') throw new Error('it listens on no port');
    const client = connect(bound.port, connecting).pause();
    const [socket] = (await within(PATIENCE_MS, 'A connection', once(server, 'connection'))) as [Socket];
    const key = connectionKey(socket);
    if (key === undefined) throw new Error('it has no key');
    assert.is(readUnacknowledged()?.has(key), false, 'nothing was sent');
    socket.write(Buffer.alloc(2 ** 24));
    await until(PATIENCE_MS, 'Unacknowledged bytes', () => (readUnacknowledged()?.get(key) ?? 0) > 0);
    socket.destroy();
    client.destroy();
    server.close();
  }
});

test('tables of the kernel: connections with something to acknowledge, and no others', () => {
  const found = new Map<string, number>();
  addTable(
    found,
    [
      '  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode',
      '   0: 0100007F:1F90 00000000:0000 0A 00000010:00000000 00:00000000 00000000  1000        0 1 1 0 100 0 0 10 0',
      '   1: 0100007F:1F90 0100007F:D431 01 000000FF:00000000 01:00000014 00000000  1000        0 2 4 0 20 4 30 10 -1',
      '  12: 0100007F:1F90 0100007F:D432 01 00000000:00000009 00:00000000 00000000  1000        0 3 1 0 20 4 30 10 -1',
      '',
    ].join('\n'),
  );
  assert.equal([...found], [['8080 0100007F 54321', 255]]);
});

test.run();
