import { spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { connect, createServer, type Socket } from 'node:net';
import * as assert from 'uvu/assert';
import { LEAST_BYTES_PER_SEC, progressOf } from '../../../gateway/server/stalled-clients.ts';
import { addTable, connectionKey, familyOf, readUnacknowledged } from '../../../gateway/system/kernel.ts';
import { testApp } from '../../fixtures/app.ts';
import { closingSuite } from '../../fixtures/closing-suite.ts';
import { listening } from '../../fixtures/listening.ts';
import { programFile } from '../../fixtures/programs.ts';
import { RawClient } from '../../fixtures/raw-client.ts';
import { type ScriptedRunner, scriptedInfo } from '../../fixtures/scripted-runner.ts';
import { VirtualClock } from '../../fixtures/virtual-clock.ts';
import { wideModel } from '../../fixtures/wide-model.ts';
import { PATIENCE_MS, until, within } from '../../fixtures/within.ts';

const test = closingSuite('stalled clients');
const STALL_MS = 500;
const FAMILIES = new Set(['IPv4', 'IPv6'] as const);

interface Served {
  readonly runner: ScriptedRunner;
  readonly port: number;
  readonly clock: VirtualClock;
  /** The bytes held for each client that was given up. */
  readonly heldBytes: number[];
  /** The server's sides of the connections, the newest last. */
  readonly sockets: ReadonlySet<Socket>;
}

/** fetch: the application, if it is another one than usual. */
async function served(fetch?: () => Response): Promise<Served> {
  const { app, runner } = testApp({ model: () => wideModel(10_000) });
  runner.current = { ...runner.current, info: { ...scriptedInfo, maxModelLen: 4096 } };
  const heldBytes: number[] = [];
  const clock = new VirtualClock();
  const limits = { clientStallTimeoutMs: STALL_MS };
  const onStalled = (bytes: number) => void heldBytes.push(bytes);
  const { port, sockets } = await listening(fetch ?? app.fetch, { limits, onStalled, clock });
  return { runner, port, clock, heldBytes, sockets };
}

/** A few tokens at a time, so that the loop reaches its timers in between. */
const long = Array.from({ length: 256 }, () => [new Array(8).fill(97), { waitMs: 1 }]).flat();
const longBody = { job_id: 'a', prompt: 'x', max_tokens: 2048 };

/** Lets time pass until somebody is cut. */
function cut({ clock, heldBytes }: Served): Promise<void> {
  return until(PATIENCE_MS, 'The cut', () => {
    clock.pass(STALL_MS / 10);
    return heldBytes.length === 1;
  });
}

/**
 * The client reads until its machine has acknowledged something more, and then a part of the time passes, over and over
 * until three times the limit have passed.
 */
async function readSlowly(client: RawClient, { clock, sockets }: Served): Promise<void> {
  const socket = [...sockets].at(-1) as Socket;
  const key = connectionKey(socket);
  const taken = async () =>
    progressOf(socket, key, (await readUnacknowledged(FAMILIES)) ?? new Map()).takenBytes;
  await until(PATIENCE_MS, 'The first bytes', async () => (await taken()) > 0);
  const endMs = clock.now() + 3 * STALL_MS;
  while (clock.now() < endMs) {
    const before = await taken();
    await until(PATIENCE_MS, 'Some bytes', async () => {
      client.socket.once('data', () => client.socket.pause()).resume();
      return (await taken()) >= before + LEAST_BYTES_PER_SEC;
    });
    clock.pass(STALL_MS / 4);
  }
}

test('a client that does not read is cut, its request cancelled, and little is held for it', async () => {
  const world = await served();
  const { runner, port, heldBytes } = world;
  runner.script = long;
  const client = await RawClient.connect(port);
  client.socket.pause();
  client.post('/execute', longBody);
  await cut(world);
  assert.ok((heldBytes[0] ?? 0) <= 256 * 1024, `${heldBytes} bytes are held for one client`);
  await until(PATIENCE_MS, 'The cancel', () => runner.cancelled === 1);
  client.socket.resume();
  await client.closed();
});

test('a slow reader is not cut, and neither is one waiting for tokens', async () => {
  const world = await served();
  const { runner, port, heldBytes } = world;
  runner.scriptOf = ({ maxTokens }) => (maxTokens === 1 ? ['wait'] : long);
  const waiting = await RawClient.connect(port);
  waiting.post('/execute', { job_id: 'b', prompt: 'x', max_tokens: 1 });
  await until(PATIENCE_MS, 'The request', () => runner.requests.length === 1);
  const slow = await RawClient.connect(port);
  slow.socket.pause();
  slow.post('/execute', longBody);
  await readSlowly(slow, world);
  assert.equal(heldBytes, []);
  assert.not(slow.isClosed || waiting.isClosed);
});

test('a slow reader of a large answer written at once is not cut', async () => {
  const large = 'x'.repeat(2 ** 26);
  const world = await served(() => new Response(large));
  const client = await RawClient.connect(world.port);
  client.socket.pause();
  client.send('GET / HTTP/1.1', 'Host: localhost', '', '');
  await readSlowly(client, world);
  assert.equal(world.heldBytes, []);
  assert.not(client.isClosed);
  assert.ok(client.received.length < large.length / 2, 'most of it is still to be written');
  // From now on it reads no more.
  await cut(world);
  client.socket.destroy();
});

test('a pipelined request is watched like the first', async () => {
  const world = await served();
  const { runner, port } = world;
  runner.script = long;
  const client = await RawClient.connect(port);
  client.socket.pause();
  client.send('GET /health HTTP/1.1', 'Host: localhost', '', '');
  client.post('/execute', longBody);
  await cut(world);
  await until(PATIENCE_MS, 'The cancel', () => runner.cancelled === 1);
  client.socket.destroy();
});

test('pipelined requests end with their connection', async () => {
  const { runner, port } = await served();
  runner.script = [[97], 'wait'];
  const client = await RawClient.connect(port);
  for (const job_id of ['a', 'b', 'c']) client.post('/execute', { job_id, prompt: 'x', max_tokens: 9 });
  await until(PATIENCE_MS, 'The requests', () => runner.requests.length === 3);
  await until(PATIENCE_MS, 'A token', () => client.received.includes('event: token'));
  client.socket.destroy();
  await until(PATIENCE_MS, 'The cancels', () => runner.cancelled === 3);
});

/** The result of a command in a network namespace of its own, whose loopback interface it may take down. */
async function inOwnNetwork(...command: string[]): Promise<{ code: number | null; output: string }> {
  const child = spawn('unshare', ['-Urn', ...command], { stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  for (const pipe of [child.stdout, child.stderr])
    pipe.setEncoding('utf8').on('data', (text) => (output += text));
  return new Promise((resolve) => {
    child.once('error', (error) => resolve({ code: null, output: error.message }));
    child.once('close', (code) => resolve({ code, output }));
  });
}

const attempt = await inOwnNetwork('ip', 'link', 'set', 'lo', 'up');
if (attempt.code !== 0) console.log(`SKIPPED: no client can vanish here: ${attempt.output}`);
// The kernel takes seconds to give up a client, in which the other tests run.
const vanished =
  attempt.code === 0 ? inOwnNetwork(process.execPath, programFile('vanishing-clients')) : undefined;
const vanishingTest = vanished !== undefined ? test : test.skip;

test('unacknowledged bytes are found for every address family', async () => {
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
    const [key, family] = [connectionKey(socket), familyOf(socket)];
    if (key === undefined || family === undefined) throw new Error('it has no key');
    const read = () => readUnacknowledged(new Set([family]));
    assert.is((await read())?.has(key), false, 'nothing was sent');
    socket.write(Buffer.alloc(2 ** 24));
    await until(PATIENCE_MS, 'Unacknowledged bytes', async () => ((await read())?.get(key) ?? 0) > 0);
    socket.destroy();
    client.destroy();
    server.close();
  }
});

test('the kernel’s tables are not read on the event loop', async () => {
  const { readFileSync } = fs;
  let numReads = 0;
  fs.readFileSync = ((...of: Parameters<typeof readFileSync>) => {
    numReads += 1;
    return readFileSync(...of);
  }) as typeof readFileSync;
  syncBuiltinESMExports();
  try {
    assert.ok(await readUnacknowledged(new Set(['IPv4', 'IPv6'])));
  } finally {
    fs.readFileSync = readFileSync;
    syncBuiltinESMExports();
  }
  assert.is(numReads, 0);
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

vanishingTest(
  'a client that is gone without a word is noticed, whether something is being sent to it or not',
  async () => {
    // Without a word from the gateway the kernel would wait a quarter of an hour for the one, and two hours for the other.
    assert.equal(await vanished, { code: 0, output: 'Both were noticed.\n' });
  },
);

test.run();
