import { setImmediate as nextTurn } from 'node:timers/promises';
import { Hono } from 'hono';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { close, createHttpServer, listen } from '../../../../gateway/server/http-server.ts';
import {
  dataEvent,
  eventStream,
  type ResponseStream,
} from '../../../../gateway/server/streams/response-stream.ts';
import {
  GATHER_MS,
  KEEP_ALIVE_INTERVAL_MS,
  StreamTimes,
} from '../../../../gateway/server/streams/stream-times.ts';
import { httpLimits } from '../../../fixtures/http-limits.ts';
import { RawClient } from '../../../fixtures/raw-client.ts';
import { VirtualClock } from '../../../fixtures/virtual-clock.ts';
import { PATIENCE_MS, until, within } from '../../../fixtures/within.ts';

const test = suite('response stream');

/** Records what is asked of the source of a stream. */
function sourceOf() {
  const asked: string[] = [];
  const say = (what: string) => () => void asked.push(what);
  return { asked, source: { cancel: say('cancel'), pause: say('pause'), resume: say('resume') } };
}

/** A stream without a socket, read by the test. */
async function opened(how: { signal?: AbortSignal } = {}) {
  const clock = new VirtualClock();
  const { asked, source } = sourceOf();
  let numEnds = 0;
  let stream: ResponseStream | undefined;
  const app = new Hono();
  app.get('/', (c) => {
    c.header('x-before', 'kept');
    c.set('streamTimes', new StreamTimes(clock));
    stream = eventStream(c);
    return stream.respond(source, () => numEnds++);
  });
  const response = await app.request(new Request('http://localhost/', how));
  const reader = (response.body as ReadableStream<Uint8Array>).getReader();
  const read = async () => {
    const { value } = await within(PATIENCE_MS, 'The next chunk', reader.read());
    return value === undefined ? 'end' : Buffer.from(value).toString();
  };
  if (stream === undefined) throw new Error('The route was not asked.');
  return { clock, asked, stream, response, reader, read, numEnds: () => numEnds };
}

test('keep-alive: a comment after each interval of silence, and no event is lost', async () => {
  const { clock, stream, read, numEnds } = await opened();
  for (let silence = 0; silence < 3; silence++) {
    const chunk = read();
    await nextTurn();
    clock.pass(KEEP_ALIVE_INTERVAL_MS);
    assert.is(await chunk, ': keep-alive\n\n');
  }
  const chunk = read();
  await nextTurn();
  clock.pass(KEEP_ALIVE_INTERVAL_MS - 1);
  stream.write(dataEvent('1'));
  assert.is(await chunk, 'data: 1\n\n', 'the event comes whole');
  const silent = read();
  await nextTurn();
  clock.pass(KEEP_ALIVE_INTERVAL_MS - 1);
  stream.write(dataEvent('2'));
  assert.is(await silent, 'data: 2\n\n', 'what is said begins the silence anew');
  stream.end();
  assert.is(await read(), 'end');
  assert.is(numEnds(), 1);
  assert.is(clock.numTimers, 0, 'no timer is left');
});

test('keep-alive: a silence of ten seconds is broken', () => {
  assert.is(KEEP_ALIVE_INTERVAL_MS, 10_000);
});

test('a client that was gone before its answer began cancels it, once', async () => {
  const { asked, reader, numEnds, clock } = await opened({ signal: AbortSignal.abort() });
  assert.equal([asked.filter((what) => what === 'cancel').length, numEnds()], [1, 1]);
  await reader.cancel();
  assert.equal([asked.filter((what) => what === 'cancel').length, numEnds()], [1, 1]);
  assert.is(clock.numTimers, 0);
});

test('keep-alive: a client that does not read gets none, and one that leaves leaves no timer', async () => {
  const { clock, stream, read, reader, asked, numEnds } = await opened();
  clock.pass(3 * KEEP_ALIVE_INTERVAL_MS);
  stream.write(dataEvent('1'));
  assert.is(await read(), 'data: 1\n\n', 'nothing was said to nobody');
  await reader.cancel();
  assert.is(clock.numTimers, 0);
  assert.equal([asked.at(-1), numEnds()], ['cancel', 1]);
});

test('the stream has the headers of its kind and those set before it', async () => {
  const { response, reader } = await opened();
  assert.is(response.headers.get('content-type'), 'text/event-stream');
  assert.is(response.headers.get('x-accel-buffering'), 'no');
  assert.is(response.headers.get('x-before'), 'kept');
  await reader.cancel();
});

test('output of one turn is one write', async () => {
  const { stream, read } = await opened();
  const chunk = read();
  await nextTurn();
  for (const text of ['1', '2', '3']) stream.write(dataEvent(text));
  assert.is(await chunk, 'data: 1\n\ndata: 2\n\ndata: 3\n\n');
});

test('tokens at reading speed are written at once, faster ones are gathered, and an end waits for nothing', async () => {
  const { clock, stream, read } = await opened();
  for (const text of ['1', '2']) {
    const chunk = read();
    await nextTurn();
    stream.write(dataEvent(text));
    assert.is(await chunk, `data: ${text}\n\n`);
    clock.pass(GATHER_MS);
  }
  const first = read();
  await nextTurn();
  stream.write(dataEvent('3'));
  assert.is(await first, 'data: 3\n\n');
  let gathered: string | undefined;
  const second = read().then((text) => (gathered = text));
  for (const text of ['4', '5', '6']) {
    await nextTurn();
    clock.pass(GATHER_MS / 4);
    stream.write(dataEvent(text));
  }
  await nextTurn();
  assert.is(gathered, undefined, 'not before its time');
  clock.pass(GATHER_MS / 4);
  assert.is(await second, 'data: 4\n\ndata: 5\n\ndata: 6\n\n');
  const last = read();
  await nextTurn();
  stream.write(dataEvent('7'));
  stream.end();
  assert.is(await last, 'data: 7\n\n');
  assert.is(await read(), 'end');
});

test('a slow client pauses its source, and pending output comes when it reads', async () => {
  const { stream, read, asked } = await opened();
  assert.equal(asked, ['pause'], 'it has not asked for anything');
  stream.write(dataEvent('1'));
  assert.is(await read(), 'data: 1\n\n');
  stream.write(dataEvent('2'));
  stream.end();
  await nextTurn();
  assert.is(await read(), 'data: 2\n\n');
  assert.is(await read(), 'end');
  assert.ok(asked.includes('pause') && !asked.includes('cancel'));
});

test('over a socket: late headers are kept, and a slow client pauses the source', async () => {
  const { asked, source } = sourceOf();
  let numEnds = 0;
  let stream: ResponseStream | undefined;
  const app = new Hono();
  app.use(async (c, next) => {
    await next();
    c.header('x-behind', 'kept');
  });
  app.get('/', (c) => {
    stream = eventStream(c);
    return stream.respond(source, () => numEnds++);
  });
  const server = createHttpServer(app.fetch, httpLimits);
  const address = await listen(server, { host: '127.0.0.1', port: 0 });
  const client = await RawClient.connect('port' in address ? address.port : 0);
  try {
    client.send('GET / HTTP/1.1', 'Host: localhost', '', '');
    await until(PATIENCE_MS, 'The header', () => client.received.includes('\r\n\r\n'));
    assert.match(client.received, /^HTTP\/1.1 200 OK\r\n/);
    assert.match(client.received, 'content-type: text/event-stream\r\n');
    assert.match(client.received, 'x-behind: kept\r\n');
    assert.not.match(client.received, 'already-sent');
    client.socket.pause();
    const event = dataEvent('x'.repeat(2 ** 20));
    let numWritten = 0;
    let numQuietTurns = 0;
    await until(PATIENCE_MS, 'A pause that lasts', async () => {
      // The kernel takes the first writes, and the source is resumed at once.
      if (asked.at(-1) === 'pause') numQuietTurns += 1;
      else {
        stream?.write(event);
        numWritten += 1;
        numQuietTurns = 0;
      }
      await nextTurn();
      return numQuietTurns > 100;
    });
    client.socket.resume();
    await until(PATIENCE_MS, 'A resume', () => asked.at(-1) === 'resume');
    stream?.write(dataEvent('last'));
    stream?.end();
    await until(PATIENCE_MS, 'The end', () => client.received.endsWith('0\r\n\r\n'));
    assert.is(client.received.split('data: ').length - 1, numWritten + 1, 'nothing is lost');
    assert.equal([numEnds, asked.includes('cancel')], [1, false]);
  } finally {
    client.socket.destroy();
    server.closeAllConnections();
    await close(server);
  }
});

test('over a socket: a client that disconnects cancels, and later writes are harmless', async () => {
  const { asked, source } = sourceOf();
  let stream: ResponseStream | undefined;
  const app = new Hono();
  app.get('/', (c) => {
    stream = eventStream(c);
    return stream.respond(source);
  });
  const server = createHttpServer(app.fetch, httpLimits);
  const address = await listen(server, { host: '127.0.0.1', port: 0 });
  const client = await RawClient.connect('port' in address ? address.port : 0);
  try {
    client.send('GET / HTTP/1.1', 'Host: localhost', '', '');
    await until(PATIENCE_MS, 'The header', () => client.received.includes('\r\n\r\n'));
    client.socket.destroy();
    await until(PATIENCE_MS, 'The cancel', async () => {
      stream?.write(dataEvent('1'));
      await nextTurn();
      return asked.includes('cancel');
    });
    stream?.write(dataEvent('2'));
    stream?.end();
    await nextTurn();
    assert.is(asked.filter((what) => what === 'cancel').length, 1);
  } finally {
    server.closeAllConnections();
    await close(server);
  }
});

test.run();
