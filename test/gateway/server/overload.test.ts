/** More clients than there is room for, and clients that misbehave. */
import { readdirSync } from 'node:fs';
import * as assert from 'uvu/assert';
import { closingSuite } from '../../fixtures/closing-suite.ts';
import { openCrowd } from '../../fixtures/crowd.ts';
import { answerOf } from '../../fixtures/fake-tokens.ts';
import { readNativeAnswer } from '../../fixtures/native-stream.ts';
import { RawClient } from '../../fixtures/raw-client.ts';
import { patienceMs } from '../../fixtures/supervised.ts';
import { VirtualClock } from '../../fixtures/virtual-clock.ts';
import { until, within } from '../../fixtures/within.ts';

const test = closingSuite('overload');

/** Requests above the capacity. Below: clients that leave at the first token. */
const NUM_REQUESTS = Number(process.env.RUNNEL_TEST_OVERLOAD ?? 400);
const NUM_LEAVING = Number(process.env.RUNNEL_TEST_STORM ?? 500);
const NUM_PAUSED = 200;
const CAPACITY = 8;

/** Calls `run` for each number below `count`, at most `width` at a time. */
async function each(count: number, width: number, run: (index: number) => Promise<void>): Promise<void> {
  let next = 0;
  const lane = async (): Promise<void> => {
    while (next < count) await run(next++);
  };
  await Promise.all(Array.from({ length: width }, lane));
}

test(`${NUM_REQUESTS} requests at fifty times the capacity are each answered or get Retry-After`, async () => {
  const bounds = { maxOpenRequests: CAPACITY };
  const crowd = await openCrowd({ flags: ['--delay-ms', '5'], supervisor: bounds, bytesPerToken: 10 });
  const count = new Map<number, number>();
  const ask = async (index: number): Promise<void> => {
    const response = await crowd.execute(`job ${index}`, { prompt_ids: [index % 100], max_tokens: 40 });
    count.set(response.status, (count.get(response.status) ?? 0) + 1);
    if (response.status === 200) {
      assert.equal((await readNativeAnswer(response)).ids, answerOf([index % 100], 42n, 40));
      return;
    }
    assert.ok(Number(response.headers.get('retry-after')) >= 1, `${response.status} says when to come again`);
    await response.text();
  };
  await within(patienceMs + NUM_REQUESTS * 50, 'All answers', each(NUM_REQUESTS, 50 * CAPACITY, ask));
  const [answered = 0, refused = 0, notReady = 0] = [200, 429, 503].map((status) => count.get(status));
  console.log(`${NUM_REQUESTS} requests: ${answered} answered, ${refused} queue full, ${notReady} not ready`);
  assert.is(answered + refused + notReady, NUM_REQUESTS);
  assert.ok(answered >= CAPACITY && refused > 0);
  assert.is(crowd.supervisor.status().openRequests, 0);
});

test('a full queue refuses before it has the body', async () => {
  const crowd = await openCrowd({ flags: ['--delay-ms', '20'], supervisor: { maxOpenRequests: 1 } });
  const open = await crowd.execute('open', { prompt_ids: [1], max_tokens: 2000 });
  for (const path of ['/execute', '/v1/completions', '/v1/chat/completions']) {
    const client = await RawClient.connect(crowd.port);
    const head = ['Host: localhost', 'Content-Type: application/json', 'Content-Length: 1000', '', ''];
    client.send(`POST ${path} HTTP/1.1`, ...head);
    assert.is(await client.status(), 429, path);
    assert.match(client.received, /retry-after: 1\r\n/i);
    client.socket.destroy();
  }
  await open.body?.cancel();
});

test(`${NUM_LEAVING} clients that disconnect after the first token leak nothing and disturb nobody`, async () => {
  const options = { flags: ['--delay-ms', '1'], supervisor: { maxOpenRequests: 64 }, bytesPerToken: 10 };
  const { execute, supervisor, port, sockets } = await openCrowd(options);
  const numDescriptors = () => readdirSync('/proc/self/fd').length;
  await until(patienceMs, 'Statistics', () => supervisor.status().stats !== undefined);
  const before = numDescriptors();
  const bystander = async (index: number): Promise<void> => {
    const response = await execute(`bystander ${index}`, { prompt_ids: [index], max_tokens: 300 });
    assert.equal((await readNativeAnswer(response)).ids, answerOf([index], 42n, 300));
  };
  const leave = async (index: number): Promise<void> => {
    const client = await RawClient.connect(port);
    client.post('/execute', { job_id: `leaving ${index}`, prompt_ids: [index % 100], max_tokens: 2000 });
    await until(patienceMs, 'A token', () => client.received.includes('event: token'));
    client.socket.resetAndDestroy();
    numLeft += 1;
  };
  let numLeft = 0;
  const all = Promise.all([each(NUM_LEAVING, 32, leave), each(NUM_LEAVING / 50, 2, bystander)]);
  await within(patienceMs + NUM_LEAVING * 50, 'The storm', all);
  await until(patienceMs, 'The end of all requests', () => supervisor.status().openRequests === 0);
  await until(patienceMs, 'An empty runner', () => supervisor.status().stats?.numRunning === 0);
  assert.is(supervisor.status().restarts, 0);
  console.log(`${numLeft} clients left with the first token`);
  // fetch keeps the connections of the bystanders alive.
  await until(patienceMs, 'The connections', () => sockets.size <= 2);
  await until(patienceMs, 'The descriptors', () => numDescriptors() - before <= 2 * sockets.size);
});

test(`${NUM_PAUSED} clients that do not read: little is held for each, and all are rid of, however they end`, async () => {
  const clock = new VirtualClock();
  const options = {
    clock,
    flags: ['--max-num-seqs', '256', '--stats-ms', '100', '--delay-ms', '1'],
    supervisor: { maxOpenRequests: 256 },
    limits: { clientStallTimeoutMs: 12_000 },
    bytesPerToken: 700,
    isLocal: true,
  };
  const { supervisor, path, sockets } = await openCrowd(options);
  const clients: RawClient[] = [];
  await each(NUM_PAUSED, 16, async (index) => {
    const client = await RawClient.connect(path);
    client.socket.pause();
    client.post('/execute', { job_id: `job ${index}`, prompt_ids: [index], max_tokens: 2048 });
    clients.push(client);
  });
  await until(patienceMs, 'A pause of all', () => supervisor.status().stats?.numPaused === NUM_PAUSED);
  let held = 0;
  for (const socket of sockets) {
    assert.ok(socket.writableLength <= 256 * 1024, `${socket.writableLength} bytes are held for one`);
    held += socket.writableLength;
  }
  console.log(`${held} bytes wait in this process for ${NUM_PAUSED} clients`);
  // These end in the middle of a write.
  for (const client of clients.slice(0, NUM_PAUSED / 2)) client.socket.destroy();
  await until(patienceMs, 'The end of half', () => sockets.size <= NUM_PAUSED / 2);
  assert.is(sockets.size, NUM_PAUSED / 2, 'no time has passed for the others');
  await until(patienceMs, 'The end of all', () => {
    clock.pass(1000);
    return sockets.size === 0;
  });
  await until(patienceMs, 'The end of their requests', () => supervisor.status().openRequests === 0);
  await until(patienceMs, 'An empty runner', () => {
    const now = supervisor.status().stats;
    return now?.numPaused === 0 && now.numRunning === 0;
  });
  for (const client of clients) client.socket.destroy();
});

test.run();
