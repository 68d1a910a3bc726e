import { once } from 'node:events';
import { existsSync, lstatSync, renameSync, writeFileSync } from 'node:fs';
import { request, type Server } from 'node:http';
import { connect, createServer } from 'node:net';
import { join } from 'node:path';
import type { Hono } from 'hono';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { answerOutside, answerUnreadable } from '../../../gateway/api/error-bodies.ts';
import { respondInPieces } from '../../../gateway/api/long-answer.ts';
import { LINGER_BYTES } from '../../../gateway/server/connections.ts';
import { close, createHttpServer, type HttpLimits, listen } from '../../../gateway/server/http-server.ts';
import { failureLog } from '../../../gateway/server/request-log.ts';
import { ResponseStream } from '../../../gateway/server/streams/response-stream.ts';
import { randomIds } from '../../../gateway/system/ids.ts';
import type { Log } from '../../../gateway/telemetry/log.ts';
import { testApp } from '../../fixtures/app.ts';
import { EOS_ID } from '../../fixtures/byte-model.ts';
import { errorOf } from '../../fixtures/errors.ts';
import { httpLimits } from '../../fixtures/http-limits.ts';
import { RawClient } from '../../fixtures/raw-client.ts';
import { recordedCases } from '../../fixtures/recorded-cases.ts';
import { ScriptedRunner } from '../../fixtures/scripted-runner.ts';
import { temporaryFolder } from '../../fixtures/temporary-folder.ts';
import { PATIENCE_MS, until, within } from '../../fixtures/within.ts';

const test = suite('http server');
const folder = temporaryFolder();
const MAX_BODY_BYTES = 4096;

const few: HttpLimits = { ...httpLimits, maxConnections: 8, maxRequestsPerConnection: 3 };
/** A tenth of the times in production, or less, for clients that let them pass. */
const scaled = { headersTimeoutMs: 300, requestTimeoutMs: 600, checkIntervalMs: 50 };

const servers: Server[] = [];
const runner = new ScriptedRunner();
const errors: unknown[] = [];
/** The log lines of requests that were answered. */
const lines: Record<string, unknown>[] = [];
const quiet = () => {};
const note = (fields: Record<string, unknown>) => lines.push(fields);
const log = {
  debug: note,
  info: note,
  warn: quiet,
  error: (fields: unknown) => errors.push(fields),
  child: () => log,
};

/** The server is closed after the test, whatever happens. */
function created(limits: Partial<HttpLimits> = {}): Server {
  const { app } = testApp({ runner, log: log as unknown as Log, maxBodyBytes: MAX_BODY_BYTES });
  serveAlso(app);
  const server = createHttpServer(
    app.fetch,
    { ...few, ...limits },
    {
      onError: (error) => answerOutside(error, log as unknown as Log, randomIds),
      onUnreadable: (error) => answerUnreadable(error, log as unknown as Log, randomIds),
    },
  );
  servers.push(server);
  return server;
}

/** Adds paths that behave as a test needs. */
function serveAlso(app: Hono): void {
  function* failing(numChunks: number): Generator<string> {
    for (let next = 0; next < numChunks; next++) yield 'a chunk;';
    throw new Error('a secret of the inside');
  }
  app.get('/failing/:chunks', (c) => {
    const onBroken = failureLog(log as unknown as Log, c);
    const stream = new ResponseStream(c, 'application/json');
    return respondInPieces(stream, failing(Number(c.req.param('chunks'))), onBroken, () => {});
  });
  app.get('/throwing', () => {
    throw 'a secret that is no Error';
  });
}

async function start(limits: Partial<HttpLimits> = {}): Promise<{ server: Server; port: number }> {
  const server = created(limits);
  const address = await listen(server, { host: '127.0.0.1', port: 0 });
  return { server, port: 'port' in address ? address.port : 0 };
}

/** A header with its empty line. The body follows directly. */
function head(length: string, path = '/execute'): string {
  return `POST ${path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n${length}\r\n\r\n`;
}

const body = '{"job_id":"a","prompt":"x","max_tokens":9}';

test.before.each(() => {
  runner.script = [[97, EOS_ID]];
  runner.refuse = undefined;
  runner.requests.length = 0;
  errors.length = 0;
  lines.length = 0;
});
test.after.each(async () => {
  for (const server of servers.splice(0)) {
    if (!server.listening) continue;
    server.closeAllConnections();
    await close(server);
  }
});

test('slow clients: one that is silent, drips its header or stalls its body gets 408 and is closed', async () => {
  const { port } = await start(scaled);
  const attacks: Record<string, (client: RawClient) => void> = {
    silent: () => {},
    'half a header': (client) => client.send('POST /execute HTTP/1.1', 'Host: loc'),
    'dripping header': (client) => {
      client.send('GET /health HTTP/1.1', '');
      const timer = setInterval(() => client.send('X-Drip: 1', ''), 20);
      client.socket.on('close', () => clearInterval(timer));
    },
    'stalled body': (client) => client.send(`${head('Content-Length: 100')}{`),
    'stalled chunks': (client) => client.send(`${head('Transfer-Encoding: chunked')}1\r\n{\r\n`),
  };
  const attacked = Object.entries(attacks).map(async ([name, attack]) => {
    const client = await RawClient.connect(port);
    attack(client);
    await client.closed();
    if (name !== 'silent') assert.match(client.received, /^HTTP\/1\.1 408 /, name);
  });
  await Promise.all(attacked);
  assert.is(runner.requests.length, 0);
  assert.equal(errors, [], 'a slow client is no error of the gateway');
});

test('a stream may last longer than any of these times', async () => {
  const { server, port } = await start({ checkIntervalMs: scaled.checkIntervalMs });
  runner.script = [[97], 'wait'];
  const client = await RawClient.connect(port);
  client.send(head(`Content-Length: ${body.length}`) + body);
  await until(PATIENCE_MS, 'A token', () => client.received.includes('event: token'));
  // Now that the request has come, however busy the machine is.
  server.headersTimeout = server.requestTimeout = server.keepAliveTimeout = scaled.checkIntervalMs;
  const begin = performance.now();
  await until(PATIENCE_MS, 'Some checks', () => performance.now() - begin > 6 * scaled.checkIntervalMs);
  assert.not(client.isClosed);
  client.socket.destroy();
});

test('an idle connection is closed, and so is one that has had its share of requests', async () => {
  const { port } = await start({ keepAliveTimeoutMs: 100 });
  const idle = await RawClient.connect(port);
  idle.send('GET /health HTTP/1.1', 'Host: localhost', '', '');
  assert.is(await idle.status(), 200);
  await idle.closed();

  const busy = await RawClient.connect(port);
  for (let i = 0; i < 5; i++) busy.send('GET /health HTTP/1.1', 'Host: localhost', '', '');
  await busy.closed();
  assert.is(busy.received.match(/HTTP\/1\.1 200 /g)?.length, 3);
});

test('a connection is kept for a second longer than is advertised', async () => {
  const { server, port } = await start({ keepAliveTimeoutMs: 7000 });
  const client = await RawClient.connect(port);
  client.send('GET /health HTTP/1.1', 'Host: localhost', '', '');
  assert.is(await client.status(), 200);
  assert.match(client.received, /\r\nKeep-Alive: timeout=7\r\n/i);
  assert.is(server.keepAliveTimeout, 8000);
  client.socket.destroy();
});

test('the last answer of a connection says so, and later requests are ignored', async () => {
  const { port } = await start({ keepAliveTimeoutMs: 60_000 });
  const client = await RawClient.connect(port);
  const health = ['GET /health HTTP/1.1', 'Host: localhost', '', ''];
  for (let i = 1; i <= 3; i++) {
    assert.not(client.isClosed);
    client.send(...health);
    const count = () => client.received.match(/HTTP\/1\.1 200 /g)?.length ?? 0;
    await until(PATIENCE_MS, `Answer ${i}`, () => count() === i);
    const closes = client.received.match(/connection: close\r\n/gi)?.length ?? 0;
    assert.is(closes, i === 3 ? 1 : 0, `answer ${i}`);
  }
  await client.closed();

  const eager = await RawClient.connect(port);
  eager.send(...health, ...health);
  for (let i = 0; i < 4; i++) eager.send(head(`Content-Length: ${body.length}`) + body);
  await eager.closed();
  assert.is(eager.received.match(/HTTP\/1\.1 200 /g)?.length, 3);
  assert.not.match(eager.received, ' 503 ');
  assert.match(eager.received, 'event: end');
  assert.is(runner.requests.length, 1);
});

test('an answer before the body was read is the last of its connection, and comes whole though more is sent', async () => {
  const { port, server } = await start();
  const noneLeft = () => connections(server).then((count) => count === 0);
  for (const [path, length, status] of [
    ['/execute', 10_000_000, 413],
    ['/nowhere', 4000, 404],
  ] as const) {
    const client = await RawClient.connect(port, true);
    client.send(head(`Content-Length: ${length}`, path));
    assert.is(await client.status(), status);
    assert.match(client.received, /connection: close\r\n/i);
    assert.not(client.isClosed, 'a reset would take the answer from a client that is still sending');
    client.send('x'.repeat(length - 1));
    await until(PATIENCE_MS, 'The end of what was sent', () => client.socket.writableLength === 0);
    assert.ok(client.received.endsWith('}'));
    client.send('x');
    await until(PATIENCE_MS, 'The end of the connection', noneLeft);
    client.socket.destroy();
  }
  const silent = await RawClient.connect(port, true);
  silent.send(head('Content-Length: 5000'));
  assert.is(await silent.status(), 413);
  await until(PATIENCE_MS, 'The end of a connection that says no more', noneLeft);
  silent.socket.destroy();
  const endless = await RawClient.connect(port, true);
  endless.send(head('Transfer-Encoding: chunked'));
  const chunk = `10000\r\n${'x'.repeat(2 ** 16)}\r\n`;
  const timer = setInterval(() => endless.socket.writableNeedDrain || endless.send(chunk), 1);
  await until(PATIENCE_MS, 'The end of a connection that says ever more', () => endless.isClosed);
  clearInterval(timer);
  assert.ok(endless.socket.bytesWritten < 2 * LINGER_BYTES);
});

test('an answer to a request that was read keeps its connection, also a refusal', async () => {
  const { port } = await start();
  const client = await RawClient.connect(port);
  client.send(`${head('Content-Length: 2', '/nowhere')}{}`);
  assert.is(await client.status(), 404);
  client.send(`${head('Content-Length: 2')}{}`);
  await until(PATIENCE_MS, 'The second answer', () => client.received.includes('HTTP/1.1 400 '));
  assert.not.match(client.received, /connection: close/i);
  client.socket.destroy();
});

test('an answer that fails goes to the log, and nothing of what failed to the client', async () => {
  const { port } = await start();
  for (const chunks of [0, 1, 3]) {
    const client = await RawClient.connect(port);
    client.send(`GET /failing/${chunks} HTTP/1.1`, 'Host: localhost', '', '');
    await client.closed();
    assert.not.match(client.received, 'secret');
    assert.not.ok(client.received.endsWith('0\r\n\r\n'), 'it must not look whole');
    assert.is(errors.length, 1);
    const { event, path, err } = errors.pop() as { event: string; path: string; err: Error };
    assert.equal([event, path, err.message], ['error', `/failing/${chunks}`, 'a secret of the inside']);
  }
  const thrown = await fetch(`http://127.0.0.1:${port}/throwing`);
  assert.is(thrown.status, 500);
  assert.not.match(await thrown.text(), 'secret');
  const { correlation_id, err } = errors.pop() as { correlation_id: string; err: unknown };
  assert.equal([err, correlation_id], ['a secret that is no Error', thrown.headers.get('x-correlation-id')]);
});

/** The answer to what is sent, and the route of its line in the log. */
async function answerTo(line: string): Promise<string> {
  const { port } = await start({ ...scaled, keepAliveTimeoutMs: 100 });
  const client = await RawClient.connect(port);
  client.send(line.replaceAll('⏎', '\r\n'));
  const status = await client.status();
  const answer = () => client.received.split('\r\n\r\n')[1] ?? '';
  await until(PATIENCE_MS, 'The whole answer', () => answer().endsWith('}'));
  const [header = ''] = client.received.split('\r\n\r\n');
  assert.match(header, new RegExp(`^content-length: ${answer().length}$`, 'im'));
  await until(PATIENCE_MS, 'A line of the log', () => lines.length > 0);
  const id = /^x-correlation-id: ([\da-f-]{36})$/im.exec(header)?.[1];
  assert.equal(
    lines.map(({ event, status: logged, correlation_id }) => [event, logged, correlation_id]),
    [['request', status, id]],
  );
  assert.equal([errors, runner.requests], [[], []]);
  await client.closed();
  const route = lines.splice(0)[0]?.route;
  const { code, message, errors: faults } = JSON.parse(answer());
  // The words of Node's parser differ from version to version.
  const sentence = (message ?? JSON.stringify(faults)).replace(/(?<=is not valid HTTP\/1.1: )[^.]*/, '…');
  return `${status} ${code ?? ''}: ${sentence}; logged with the route ${route}`;
}

recordedCases(test, import.meta.url, answerTo);

test('a malformed request after a stream is answered after the stream', async () => {
  const { port } = await start();
  runner.script = [[97], { waitMs: 300 }, [97, EOS_ID]];
  const client = await RawClient.connect(port);
  client.send(`${head(`Content-Length: ${body.length}`)}${body}rubbish\r\n\r\n`);
  await client.closed();
  assert.match(client.received, /event: end.*\r\n0\r\n\r\nHTTP\/1\.1 400 .*MALFORMED_REQUEST/s);
});

test('a connection beyond the limit is closed unread', async () => {
  const { port, server } = await start({ maxConnections: 2 });
  const first = await RawClient.connect(port);
  const second = await RawClient.connect(port);
  await until(PATIENCE_MS, 'Two connections', () => connections(server).then((count) => count === 2));
  const third = await RawClient.connect(port);
  third.send('GET /health HTTP/1.1', 'Host: localhost', '', '');
  await third.closed();
  assert.is(third.received, '');
  second.socket.destroy();
  await until(PATIENCE_MS, 'One connection', () => connections(server).then((count) => count === 1));
  const fourth = await RawClient.connect(port);
  fourth.send('GET /health HTTP/1.1', 'Host: localhost', '', '');
  assert.is(await fourth.status(), 200);
  for (const client of [first, fourth]) client.socket.destroy();
});

function connections(server: Server): Promise<number> {
  return new Promise((resolve, reject) => {
    server.getConnections((error, count) => (error === null ? resolve(count) : reject(error)));
  });
}

test('bytes beyond the length that a header says are not taken as part of the body', async () => {
  const { port } = await start();
  const liar = await RawClient.connect(port);
  liar.send(`${head(`Content-Length: ${body.length}`)}${body}${'x'.repeat(8192)}`);
  await liar.closed();
  assert.ok(runner.requests.length <= 1);
  assert.equal(errors, []);
});

test('a body of just the limit is read', async () => {
  const { port } = await start();
  const padded = body.padEnd(MAX_BODY_BYTES);
  for (const [length, text] of [
    [`Content-Length: ${MAX_BODY_BYTES}`, padded],
    ['Transfer-Encoding: chunked', `1000\r\n${padded}\r\n0\r\n\r\n`],
  ] as const) {
    const client = await RawClient.connect(port);
    client.send(head(length) + text);
    await until(PATIENCE_MS, 'The end of the stream', () => client.received.includes('event: end'));
    client.socket.destroy();
  }
});

test('more header bytes or lines than may be are not read', async () => {
  const { port } = await start({ maxHeaders: 16 });
  const large = await RawClient.connect(port);
  large.send('GET /health HTTP/1.1', 'Host: localhost', `X-Large: ${'x'.repeat(20_000)}`, '', '');
  assert.is(await large.status(), 431);
  large.socket.destroy();
  const many = await RawClient.connect(port);
  const lines = Array.from({ length: 30 }, (_, i) => `X-${i}: 1`);
  many.send('GET /health HTTP/1.1', 'Host: localhost', ...lines, 'Origin: https://evil.example', '', '');
  assert.is(await many.status(), 431);
  many.socket.destroy();
});

test('a UNIX socket is for its user alone, and gone afterwards', async () => {
  const path = join(folder.path, 'a.sock');
  const server = created();
  assert.equal(await listen(server, { path }), { path });
  assert.is(lstatSync(path).mode & 0o777, 0o600);
  const asked = request({ socketPath: path, path: '/health' });
  const [response] = await within(PATIENCE_MS, 'An answer', once(asked.end(), 'response'));
  assert.is(response.statusCode, 200);
  response.resume();

  const second = created();
  assert.match((await errorOf(() => listen(second, { path }))).message, 'EADDRINUSE');
  assert.ok(existsSync(path), 'the socket of a living server stays');
  await close(server);
  assert.not(existsSync(path));
});

test('a socket that nobody listens on is taken over, anything else stays', async () => {
  const path = join(folder.path, 'stale.sock');
  await leaveSocket(path);
  assert.ok(lstatSync(path).isSocket());
  const server = created();
  await listen(server, { path });
  await close(server);

  writeFileSync(path, 'a letter');
  const another = created();
  assert.match((await errorOf(() => listen(another, { path }))).message, 'EADDRINUSE');
  assert.ok(lstatSync(path).isFile());
});

/** Leaves a socket file whose server is gone, as SIGKILL does. */
async function leaveSocket(path: string): Promise<void> {
  const server = createServer();
  server.listen(`${path}.live`);
  await once(server, 'listening');
  renameSync(`${path}.live`, path);
  const client = connect(path);
  await once(client, 'connect');
  client.destroy();
  server.close();
  await once(server, 'close');
}

test.run();
