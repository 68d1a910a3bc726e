import { setImmediate as nextTurn } from 'node:timers/promises';
import { Hono } from 'hono';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { progressIntervalMs, streamWhileLoading } from '../../../../gateway/server/streams/loading-stream.ts';
import type { ResponseStream } from '../../../../gateway/server/streams/response-stream.ts';
import { VirtualClock } from '../../../fixtures/virtual-clock.ts';
import { PATIENCE_MS, within } from '../../../fixtures/within.ts';

const test = suite('loading stream');

async function opened() {
  const clock = new VirtualClock();
  let settle: (failure?: Error) => void = () => {};
  const promise = new Promise<void>((resolve, reject) => {
    settle = (failure) => (failure === undefined ? resolve() : reject(failure));
  });
  let begun: ResponseStream | undefined;
  let percent = 0;
  const app = new Hono();
  app.get('/', (c) => {
    const response = streamWhileLoading(c, promise, {
      clock,
      progress: () => `loading ${percent} %`,
      failure: (thrown) => `data: ${(thrown as Error).message}\n\n`,
    });
    begun = c.get('begunStream');
    return response;
  });
  const response = await app.request('http://localhost/');
  const reader = (response.body as ReadableStream<Uint8Array>).getReader();
  const read = async () => {
    const { value } = await within(PATIENCE_MS, 'The next chunk', reader.read());
    return value === undefined ? 'end' : Buffer.from(value).toString();
  };
  const pass = async (next: number) => {
    const chunk = read();
    await nextTurn();
    percent = next;
    clock.pass(progressIntervalMs);
    return chunk;
  };
  return { response, read, pass, settle, begun: () => begun };
}

test('comments report the load of a model; the answer follows in the stream', async () => {
  const { response, read, pass, settle, begun } = await opened();
  assert.is(response.status, 200);
  assert.is(await read(), ': loading 0 %\n\n');
  assert.is(await pass(40), ': loading 40 %\n\n');
  assert.is(await pass(80), ': loading 80 %\n\n');
  settle();
  await nextTurn();
  begun()?.write('data: answer\n\n');
  begun()?.end();
  assert.is(await read(), 'data: answer\n\n', 'no comment is between them');
  assert.is(await read(), 'end');
});

test('a model that cannot load ends the stream with the events of its failure', async () => {
  const { read, settle } = await opened();
  assert.is(await read(), ': loading 0 %\n\n');
  settle(new Error('no memory'));
  assert.is(await read(), 'data: no memory\n\n');
  assert.is(await read(), 'end');
});

test.run();
