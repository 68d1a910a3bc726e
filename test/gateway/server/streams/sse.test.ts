import { Hono } from 'hono';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import {
  type CallAfter,
  dataEvent,
  KEEP_ALIVE_INTERVAL_MS,
  sseResponse,
} from '../../../../gateway/server/streams/sse.ts';
import { errorOf } from '../../../fixtures/errors.ts';
import { until, within } from '../../../fixtures/within.ts';

const test = suite('server-sent events');

const PATIENCE_MS = 5000;

/** A clock that stands still until the test says that the time of the one who waits is up. */
class FakeClock {
  readonly waiting = new Map<symbol, () => void>();
  readonly callAfter: CallAfter = (delayMs, callback) => {
    assert.is(delayMs, KEEP_ALIVE_INTERVAL_MS);
    const key = Symbol();
    this.waiting.set(key, callback);
    return () => this.waiting.delete(key);
  };

  async elapse(): Promise<void> {
    await until(PATIENCE_MS, 'a wait for the next event', () => this.waiting.size === 1);
    for (const [key, callback] of this.waiting) {
      this.waiting.delete(key);
      callback();
    }
  }
}

/** Events that come when the test gives them. */
class Given implements AsyncIterator<string> {
  numAsked = 0;
  give: (result: IteratorResult<string>) => void = () => {};

  next(): Promise<IteratorResult<string>> {
    this.numAsked++;
    return new Promise((resolve) => {
      this.give = resolve;
    });
  }
}

async function open(events: AsyncIterator<string>, clock: FakeClock) {
  let numEnds = 0;
  let numCancels = 0;
  const app = new Hono();
  const hooks = { onCancel: () => numCancels++, onEnd: () => numEnds++ };
  app.get('/', (c) => {
    c.header('x-before', 'kept');
    return sseResponse(c, events, hooks, clock.callAfter);
  });
  const response = await app.request('/');
  const reader = (response.body as ReadableStream<Uint8Array>).getReader();
  const read = async () => {
    const { value } = await within(PATIENCE_MS, 'The next chunk', reader.read());
    return value === undefined ? 'end' : Buffer.from(value).toString();
  };
  return { response, reader, read, ended: () => ({ numEnds, numCancels }) };
}

test('keep-alive: a comment after each interval of silence, and no event is lost', async () => {
  const clock = new FakeClock();
  const events = new Given();
  const { read, ended } = await open(events, clock);
  for (let silence = 0; silence < 3; silence++) {
    const chunk = read();
    await clock.elapse();
    assert.is(await chunk, ': keep-alive\n\n');
  }
  assert.is(events.numAsked, 1, 'silence does not ask again');
  const chunk = read();
  events.give({ done: false, value: dataEvent('1') });
  assert.is(await chunk, 'data: 1\n\n', 'the event comes whole');
  const last = read();
  await until(PATIENCE_MS, 'the next question', () => events.numAsked === 2);
  events.give({ done: true, value: undefined });
  assert.is(await last, 'end');
  assert.equal(ended(), { numEnds: 1, numCancels: 0 });
  assert.is(clock.waiting.size, 0, 'no timer is left');
});

test('keep-alive: a silence of ten seconds is broken', () => {
  assert.is(KEEP_ALIVE_INTERVAL_MS, 10_000);
});

test('a client that was gone before its answer began cancels it, once, and nothing is asked for', async () => {
  const clock = new FakeClock();
  const events = new Given();
  let numCancels = 0;
  let numEnds = 0;
  const app = new Hono();
  app.get('/', (c) =>
    sseResponse(c, events, { onCancel: () => numCancels++, onEnd: () => numEnds++ }, clock.callAfter),
  );
  const gone = new Request('http://localhost/', { signal: AbortSignal.abort() });
  const response = await app.request(gone);
  assert.equal([numCancels, numEnds], [1, 1]);
  assert.is(events.numAsked, 0);
  await response.body?.cancel();
  assert.equal([numCancels, numEnds], [1, 1]);
});

test('keep-alive: a client that does not read gets none, and one that leaves leaves no timer', async () => {
  const clock = new FakeClock();
  const { read, reader, ended } = await open(new Given(), clock);
  const chunk = read();
  await clock.elapse();
  await chunk;
  assert.is(clock.waiting.size, 0, 'nobody reads, so nobody waits');
  const unanswered = reader.read();
  await until(PATIENCE_MS, 'a wait for the next event', () => clock.waiting.size === 1);
  await reader.cancel();
  await unanswered;
  assert.is(clock.waiting.size, 0);
  assert.equal(ended(), { numEnds: 1, numCancels: 1 });
});

test('events that fail end the stream, and nothing stays open', async () => {
  const clock = new FakeClock();
  const { read, ended } = await open({ next: () => Promise.reject(new Error('a fault')) }, clock);
  assert.is((await errorOf(read)).message, 'a fault');
  assert.equal(ended(), { numEnds: 1, numCancels: 0 });
  assert.is(clock.waiting.size, 0);
});

test('the stream has the headers of its kind and those set before it', async () => {
  const { response, reader } = await open(new Given(), new FakeClock());
  assert.is(response.headers.get('content-type'), 'text/event-stream');
  assert.is(response.headers.get('x-accel-buffering'), 'no');
  assert.is(response.headers.get('x-before'), 'kept');
  await reader.cancel();
});

test.run();
