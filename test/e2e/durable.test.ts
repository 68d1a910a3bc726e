import { copyFileSync, readdirSync, statSync, utimesSync } from 'node:fs';
import { join } from 'node:path';
import OpenAI, { NotFoundError } from 'openai';
import * as assert from 'uvu/assert';
import { pacedRunner, TINY_MODEL } from '../fixtures/default-model.ts';
import { bodyOf, durableStream, jobOf, MODEL, told } from '../fixtures/durable-streams.ts';
import { Gateway, gatewaySuite, isAlive } from '../fixtures/gateway.ts';
import { Random } from '../fixtures/random.ts';
import { follow } from '../fixtures/returning-client.ts';
import { readEvents, type SseEvent } from '../fixtures/sse.ts';
import { temporaryFolder } from '../fixtures/temporary-folder.ts';
import { PATIENCE_MS, until } from '../fixtures/within.ts';

/**
 * The gateway is killed with SIGKILL while it has durable streams, and is started again with the same journal. Every
 * client that reconnects gets the answer that it would have got, with no part repeated. `make check` has a hundred
 * kills. Each process gets as far as a new event for each stream: a job of which two processes in a row have no token is held
 * responsible for their deaths.
 */

const KILLS = Number(process.env.RUNNEL_TEST_GATEWAY_KILLS ?? 3);
const SEED = process.env.RUNNEL_TEST_SEED;
const MAX_KILLS_IN_ROUND = 5;
const NUM_STREAMS = 20;
/** Of each step while gateways are killed: an answer that the gateway has sent whole is not interrupted by its death. */
const STEP_MS = 4;

const test = gatewaySuite('durable', 'SIGKILL');

test(`${KILLS} kills of the gateway leave no runner, its port free, and no byte of ${NUM_STREAMS} durable streams changed`, async () => {
  const random = new Random(SEED === undefined ? undefined : Number(SEED));
  // The journal is kept by default, in the state folder.
  const state = temporaryFolder().path;
  const env = { XDG_STATE_HOME: state };
  const journal = join(state, 'runnel', 'journal');
  const runner = pacedRunner(STEP_MS);
  const start = async (port: string): Promise<Gateway> => {
    return Gateway.startOn(TINY_MODEL, ['--port', port, '--threads', '1', '--runner', runner], { env });
  };
  let gateway = await (await start('0')).ready();
  const { port } = new URL(gateway.url);

  const expected = await Promise.all(
    Array.from({ length: NUM_STREAMS }, async (_, stream) => {
      const { events, numReturns } = await follow(durableStream(() => gateway, stream, `expected-${stream}`));
      assert.equal([numReturns, events.length > 20], [0, true]);
      return told(events);
    }),
  );
  const numExpected = expected.reduce((sum, text) => sum + text.split('\n').length, 0);

  let numKills = 0;
  let numReturns = 0;
  for (let round = 0; numKills < KILLS; round += 1) {
    const kills = Math.min(MAX_KILLS_IN_ROUND, KILLS - numKills);
    const places = Array.from({ length: kills }, () => 1 + random.below(Math.floor(numExpected * 0.8)));
    places.sort((a, b) => a - b);
    let numEvents = 0;
    const advanced = new Set<number>();
    const ended = new Set<number>();
    const streams = Array.from({ length: NUM_STREAMS }, (_, stream) =>
      follow(
        durableStream(() => gateway, stream, `${round}-${stream}`),
        () => {
          numEvents += 1;
          advanced.add(stream);
        },
      ).finally(() => ended.add(stream)),
    );
    const all = Promise.all(streams);
    all.catch(() => {});
    for (const place of places) {
      await until(PATIENCE_MS, `Event ${place} (seed ${random.seed})`, () => {
        return numEvents >= place && new Set([...advanced, ...ended]).size === NUM_STREAMS;
      });
      const { pid } = (await gateway.health()).runner;
      await gateway.stop('SIGKILL');
      await until(PATIENCE_MS, 'The end of the runner', () => pid === null || !isAlive(pid));
      gateway = await start(port);
      advanced.clear();
      numKills += 1;
    }
    for (const [stream, { events, numReturns: returns }] of (await all).entries()) {
      assert.is(told(events), expected[stream], `round ${round}, stream ${stream}, seed ${random.seed}`);
      numReturns += returns;
    }
  }
  assert.ok(numReturns >= KILLS, 'clients came back');
  console.log(
    `${numKills} kills of the gateway under ${NUM_STREAMS} durable streams, ${numReturns} returns, 0 lost (seed ${random.seed})`,
  );
  for (const name of ['', ...readdirSync(journal)])
    assert.is(statSync(join(journal, name)).mode & 0o077, 0, `others may not read ${name}`);
});

test('a job continues without its client and through SIGTERM, and its answer is kept', async () => {
  const journal = join(temporaryFolder().path, 'journal');
  const start = async (): Promise<Gateway> => {
    const args = ['--threads', '1', '--journal-dir', journal];
    const gateway = await (await Gateway.start(TINY_MODEL, args)).ready();
    return gateway;
  };
  let gateway = await start();
  const body = { ...bodyOf(1), max_tokens: 480, min_tokens: 480 };
  const whole: SseEvent[] = [];
  for await (const event of readEvents(await gateway.post('/execute', { job_id: 'whole', ...body })))
    whole.push(event);

  const aborted = new AbortController();
  const response = await gateway.post('/execute', { job_id: 'left', durable: true, ...body }, aborted.signal);
  await response.body?.getReader().read();
  aborted.abort();
  assert.equal(await gateway.stop('SIGTERM'), { code: 0, signal: null });
  gateway = await start();
  const { events } = await follow({
    ...jobOf(() => gateway, 'left', body),
    begin: () => fetch(`${gateway.url}/execute/left/events`),
  });
  assert.is(told(events), told(whole));

  const again = await fetch(`${gateway.url}/execute/left/events`, { headers: { 'last-event-id': '5' } });
  const rest: SseEvent[] = [];
  for await (const event of readEvents(again)) rest.push(event);
  assert.equal(rest, events.slice(6));
});

test('OpenAI’s client begins, leaves, finds, reads on, cancels and deletes responses in the background', async () => {
  const args = ['--threads', '1', '--journal-dir', join(temporaryFolder().path, 'journal')];
  const gateway = await (await Gateway.start(TINY_MODEL, args)).ready();
  const client = new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: 'unused', maxRetries: 0 });
  const asked = {
    model: MODEL,
    input: 'Once upon a time',
    max_output_tokens: 200,
    background: true,
  } as const;

  const streamed = await client.responses.create({ ...asked, temperature: 0, stream: true });
  const events: OpenAI.Responses.ResponseStreamEvent[] = [];
  for await (const event of streamed) {
    events.push(event);
    if (events.length === 10) break;
  }
  const [created] = events;
  assert.ok(created?.type === 'response.created');
  const { id } = created.response;
  const rest = await client.responses.retrieve(id, { stream: true, starting_after: 9 });
  for await (const event of rest) events.push(event);
  assert.equal(
    events.map(({ sequence_number }) => sequence_number),
    events.map((_, index) => index),
  );
  const last = events.at(-1);
  assert.ok(last?.type === 'response.incomplete' || last?.type === 'response.completed');
  const deltas = events.flatMap((event) =>
    event.type === 'response.output_text.delta' ? [event.delta] : [],
  );
  assert.is((await client.responses.retrieve(id)).output_text, deltas.join(''));
  const plain = await client.responses.create({ ...asked, temperature: 0, background: false });
  assert.is(plain.output_text, deltas.join(''));

  const long = await client.responses.create({ ...asked, max_output_tokens: 400 });
  assert.is(long.status, 'in_progress');
  assert.is((await client.responses.cancel(long.id)).id, long.id);
  await client.responses.delete(long.id);
  await client.responses.retrieve(long.id).then(
    () => assert.unreachable('it was deleted'),
    (error) => assert.instance(error, NotFoundError),
  );
});

test('a job whose model has changed meanwhile ends with an error that says so, and with no other token', async () => {
  const folder = temporaryFolder().path;
  const model = join(folder, 'model.gguf');
  copyFileSync(TINY_MODEL, model);
  const start = async (): Promise<Gateway> => {
    const args = ['--threads', '1', '--journal-dir', join(folder, 'journal')];
    const gateway = await (await Gateway.start(model, args)).ready();
    return gateway;
  };
  let gateway = await start();
  const aborted = new AbortController();
  const body = { job_id: 'a', durable: true, ...bodyOf(0) };
  const response = await gateway.post('/execute', body, aborted.signal);
  await response.body?.getReader().read();
  await gateway.stop('SIGKILL');
  utimesSync(model, new Date(), new Date());
  gateway = await start();
  await gateway.logged(/"event":"durable_lost".*The model changed/);
  const events = await fetch(`${gateway.url}/execute/a/events`);
  assert.is(events.status, 409);
  assert.match(await events.text(), /MODEL_CHANGED/);
});

test.run();
