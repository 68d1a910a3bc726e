/** Clients that disconnect while their answer is being written. */
import { readdirSync } from 'node:fs';
import type { Socket } from 'node:net';
import * as assert from 'uvu/assert';
import { testApp } from '../../fixtures/app.ts';
import { closingSuite } from '../../fixtures/closing-suite.ts';
import { listening } from '../../fixtures/listening.ts';
import { RawClient } from '../../fixtures/raw-client.ts';
import { scriptedInfo } from '../../fixtures/scripted-runner.ts';
import { temporaryFolder } from '../../fixtures/temporary-folder.ts';
import { wideModel } from '../../fixtures/wide-model.ts';
import { PATIENCE_MS, until } from '../../fixtures/within.ts';

const test = closingSuite('aborts');

const NUM_ABORTS = Number(process.env.RUNNEL_TEST_ABORTS ?? 1000);
const WIDTH = 16;
const folder = temporaryFolder();

const openAi = { model: 'bytes', max_tokens: 2000, stream: true };
const REQUESTS: readonly (readonly [path: string, body: object, headers?: string])[] = [
  ['/execute', { prompt: 'x', max_tokens: 2000 }],
  ['/execute', { prompt: 'x', max_tokens: 2000 }, 'Accept: application/x-msgpack'],
  ['/v1/completions', { ...openAi, prompt: 'x', n: 2 }],
  ['/v1/chat/completions', { ...openAi, messages: [{ role: 'user', content: 'x' }] }],
];

test(`${NUM_ABORTS} clients that disconnect in the middle of a write leak nothing`, async () => {
  const { app, runner, post } = testApp({ model: () => wideModel(30_000) });
  runner.current = { ...runner.current, info: { ...scriptedInfo, maxModelLen: 4096 } };
  runner.script = new Array<number[]>(2000).fill([97, 98]);
  // A UNIX socket has small buffers, so that a write soon waits for its reader.
  const path = `${folder.path}/aborts.sock`;
  const { server } = await listening(app.fetch, { path });
  /** The server's ends of connections, by the id of the request. */
  const sockets = new Map<string | undefined, Socket>();
  let numInWrite = 0;
  server.on('request', ({ headers, socket }) => {
    const id = headers['x-request-id'] as string;
    sockets.set(id, socket);
    socket.once('close', () => sockets.delete(id));
  });
  const numDescriptors = readdirSync('/proc/self/fd').length;

  const abort = async (index: number): Promise<void> => {
    const [route, body, headers = 'Accept: text/event-stream'] = REQUESTS[
      index % REQUESTS.length
    ] as (typeof REQUESTS)[number];
    const id = `request-${index}`;
    const client = await RawClient.connect(path);
    const json = JSON.stringify(route === '/execute' ? { job_id: id, ...body } : body);
    client.send(
      `POST ${route} HTTP/1.1`,
      'Host: localhost',
      `X-Request-Id: ${id}`,
      headers,
      'Content-Type: application/json',
      '',
    );
    client.send(`Content-Length: ${json.length}`, '', json);
    await until(PATIENCE_MS, 'The beginning of an answer', () => client.received.includes('97'));
    client.socket.pause();
    await until(PATIENCE_MS, 'A write that waits', () => sockets.get(id)?.writableNeedDrain === true);
    client.socket.destroy();
    await client.closed();
    numInWrite++;
  };
  let next = 0;
  const lane = async (): Promise<void> => {
    while (next < NUM_ABORTS) await abort(next++);
  };
  await Promise.all(Array.from({ length: WIDTH }, lane));
  await until(PATIENCE_MS, 'The end of all connections', () => sockets.size === 0);
  // Every handler has ended: each request was cancelled, and each job's id can be used again.
  await until(PATIENCE_MS, 'The cancels', () => runner.cancelled === runner.requests.length);
  assert.ok(runner.requests.length >= NUM_ABORTS);
  const again = await post('/execute', { job_id: 'request-0', prompt: 'x', max_tokens: 1 });
  assert.is(again.status, 200);
  await again.text();
  assert.ok(readdirSync('/proc/self/fd').length <= numDescriptors);
  console.log(`${numInWrite} aborts`);
});

test.run();
