/** As many clients as are allowed, with a runner that is faster than any model, or with clients that read almost nothing. */

import { loadavg } from 'node:os';
import { setTimeout as elapsed } from 'node:timers/promises';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { writeFakeModel } from '../fixtures/fake-model-file.ts';
import { Gateway } from '../fixtures/gateway.ts';
import { pollHealthAndWork } from '../fixtures/health-poller.ts';
import { residentBytes } from '../fixtures/process-memory.ts';
import { RawClient } from '../fixtures/raw-client.ts';
import { fakeRunner } from '../fixtures/stand-in-runners.ts';
import { temporaryDirectory } from '../fixtures/supervised.ts';
import { until } from '../fixtures/within.ts';

const test = suite('crowds');

const PATIENCE_MS = 200_000;
const NUM_STREAMS = 256;
const MEASURED_MS = 1000 * Number(process.env.RUNNEL_TEST_STREAM_SECONDS ?? 2);
/**
 * The most processor time that the gateway may spend on streams between two answers: ten times what an idle machine
 * shows. A busy machine does not change it.
 */
const MAX_WORK_MS = 250;

async function withGateway(
  runnerFlags: readonly string[],
  flags: readonly string[],
  run: (gateway: Gateway, port: number) => Promise<void>,
): Promise<void> {
  const directory = temporaryDirectory();
  const model = writeFakeModel(directory, 'model');
  const runner = fakeRunner(directory, '--model', `${model}.identity`, ...runnerFlags);
  const drain = ['--drain-timeout-sec', '1'];
  const gateway = await Gateway.start(model, ['--backend', 'cpu', '--runner', runner, ...drain, ...flags]);
  try {
    await gateway.ready();
    await run(gateway, Number(new URL(gateway.url).port));
  } finally {
    await gateway.stop();
  }
}

async function connected(port: number, count: number): Promise<RawClient[]> {
  return Promise.all(Array.from({ length: count }, () => RawClient.connect(port)));
}

async function numGenerated(gateway: Gateway): Promise<number> {
  const metrics = await (await fetch(`${gateway.url}/metrics`)).text();
  return Number(/^worker_tokens_generated_total\{model="[^"]+"\} (\d+)$/m.exec(metrics)?.[1]);
}

test(`${NUM_STREAMS} streams with steps of a millisecond leave /health answering`, async () => {
  await withGateway(['--delay-ms', '1', '--max-num-seqs', '256'], [], async (gateway, port) => {
    const clients = await connected(port, NUM_STREAMS);
    let numJobs = 0;
    for (const client of clients) {
      const ask = () =>
        client.post('/execute', { job_id: `${numJobs++}`, prompt: 'hello', max_tokens: 2048 });
      // Throws away what comes. When a stream ends, the next one begins.
      client.socket.removeAllListeners('data').on('data', (text: string) => {
        if (text.includes('event: end')) ask();
      });
      ask();
    }
    await gateway.healthWhere(({ runner }) => runner.open_requests === NUM_STREAMS, 'all streams');
    const before = await numGenerated(gateway);
    const measured = pollHealthAndWork(gateway);
    await elapsed(MEASURED_MS);
    const { count, p50Ms, p99Ms, numFailed, workMs } = await measured();
    const rate = ((await numGenerated(gateway)) - before) / (MEASURED_MS / 1000);
    const { open_requests } = (await gateway.health()).runner;
    const figures = `/health p50 ${p50Ms.toFixed(1)} ms, p99 ${p99Ms.toFixed(1)} ms of ${count}, ${workMs.toFixed(1)} ms of work between two`;
    console.log(
      `${open_requests} streams, ${rate.toFixed(0)} tokens/s: ${figures}, load ${loadavg()[0]?.toFixed(1)}`,
    );
    for (const client of clients) client.socket.destroy();
    assert.ok(open_requests > 0.9 * NUM_STREAMS, `${open_requests} streams are open still`);
    assert.is(numFailed, 0);
    assert.ok(workMs <= MAX_WORK_MS, figures);
  });
});

const NUM_READERS = Number(process.env.RUNNEL_TEST_READERS ?? 100);
const READ_BYTES = 2048;
const STATUS = 'HTTP/1.1 200';
const READ_EVERY_MS = 500;
const READ_MS = 1000 * Number(process.env.RUNNEL_TEST_READ_SECONDS ?? 2);
const MIB = 2 ** 20;
/** The most that may wait for one client, and one more token or piece of an answer: docs/operations.md, Bounds. */
const MAX_WAITING_BYTES = 256 * 1024;
/** The default limit on what bodies and answers of all requests may take. */
const MAX_HELD_BYTES = 2 * 64 * MIB;
/** Connections, requests, and compiled code and garbage of the JavaScript engine. */
const SLACK_BYTES = 96 * MIB;

const readers: readonly {
  what: string;
  path: string;
  body: (job: number) => object;
  maxBytes: number;
}[] = [
  {
    what: 'streams',
    path: '/execute',
    body: (job) => ({ job_id: `${job}`, prompt: 'hello', max_tokens: 2048 }),
    maxBytes: NUM_READERS * MAX_WAITING_BYTES + SLACK_BYTES,
  },
  {
    what: 'long answers',
    path: '/tokenize',
    body: () => ({ content: 'hello '.repeat(170_000), with_pieces: true }),
    maxBytes: MAX_HELD_BYTES + NUM_READERS * MAX_WAITING_BYTES + SLACK_BYTES,
  },
];

for (const { what, path, body, maxBytes } of readers) {
  test(`${NUM_READERS} clients that read next to nothing of ${what} cost no more memory than the bounds say`, async () => {
    await withGateway(['--max-num-seqs', '256'], [], async (gateway, port) => {
      const beforeBytes = residentBytes(gateway.process.pid as number);
      let peakBytes = beforeBytes;
      const clients = await connected(port, NUM_READERS);
      for (const [job, client] of clients.entries()) {
        client.socket.removeAllListeners('data').pause();
        client.post(path, body(job));
      }
      await until(PATIENCE_MS, 'An answer to each', () =>
        clients.every(({ socket }) => socket.bytesRead > 0),
      );
      const numAnswered = clients.filter(({ socket }) => socket.read(STATUS.length) === STATUS).length;
      assert.ok(numAnswered > 0, 'some get more than to be told to come again');
      const end = performance.now() + READ_MS;
      while (performance.now() < end) {
        for (const { socket } of clients) socket.read(READ_BYTES);
        peakBytes = Math.max(peakBytes, residentBytes(gateway.process.pid as number));
        await elapsed(READ_EVERY_MS);
      }
      for (const { socket } of clients) socket.destroy();
      const [before, grown] = [beforeBytes, peakBytes - beforeBytes].map((bytes) => Math.round(bytes / MIB));
      const who = `${NUM_READERS} readers of ${what}, ${numAnswered} of them answered`;
      console.log(`${who}: the gateway has ${before} MiB, and ${grown} MiB more at most`);
      assert.ok(peakBytes - beforeBytes <= maxBytes, `${grown} MiB more`);
      await gateway.idle();
    });
  });
}

test.run();
