import { basename } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { type AnswerDigest, digestOf } from '../fixtures/answer-digest.ts';
import { DEFAULT_MODEL } from '../fixtures/default-model.ts';
import { Gateway } from '../fixtures/gateway.ts';
import { type VariedRequest, variedRequests } from '../fixtures/varied-requests.ts';

/**
 * The main promise: the runner is killed with SIGKILL again and again while eight streams are in the middle of their
 * text, and each of them ends byte for byte as if nothing had happened. `make check` has fifty kills.
 */

const KILLS = Number(process.env.RUNNEL_TEST_KILLS ?? 4);
const MAX_KILLS_IN_ROUND = 3;
const NUM_STREAMS = 8;
const NUM_TOKENS = 40;
/** In characters, which at most as many tokens made. */
const STOP_LENGTH = 6;
/** As a fraction of the bytes of a round. Later, some of the streams may have ended. */
const LAST_KILL_AT = 0.4;
const HEALTH_INTERVAL_MS = 50;

const test = suite('kills');

const gateway = await Gateway.during(test, DEFAULT_MODEL);
const [first, ...others] = variedRequests(basename(DEFAULT_MODEL, '.gguf'), NUM_TOKENS);
const requests = [await withStopText(first as VariedRequest), ...others.slice(0, NUM_STREAMS - 1)];

/** Adds a stop text that the last tokens complete. It does not count before `min_tokens`. */
async function withStopText({ name, path, body }: VariedRequest): Promise<VariedRequest> {
  const whole = await gateway.post(path, { job_id: 'whole', ...body });
  const { text } = await digestOf(path, whole);
  const stop = [text.slice(-STOP_LENGTH)];
  return {
    name: `${name}, with a stop text`,
    path,
    body: { ...body, stop, min_tokens: NUM_TOKENS - STOP_LENGTH },
  };
}

/** Runs all requests at once. `onBytes` gets the number of bytes that come, on all streams together. */
function runAll(round: number, onBytes: (count: number) => void): Promise<AnswerDigest[]> {
  return Promise.all(
    requests.map(async ({ path, body }, stream) => {
      const job = path === '/execute' ? { job_id: `${round}-${stream}`, ...body } : body;
      const response = await gateway.post(path, job);
      return digestOf(path, counted(response, onBytes));
    }),
  );
}

function counted(response: Response, onBytes: (count: number) => void): Response {
  const counter = new TransformStream<Uint8Array, Uint8Array>({
    transform(chunk, controller) {
      onBytes(chunk.length);
      controller.enqueue(chunk);
    },
  });
  return new Response(response.body?.pipeThrough(counter), response);
}

/** Kills the runner each time that a given number of bytes has come. */
class Killer {
  /** For each kill, the number of open requests. */
  readonly interrupted: number[] = [];
  readonly #places: number[];
  #numBytes = 0;
  #kill = Promise.resolve();

  constructor(places: readonly number[]) {
    this.#places = [...places];
  }

  onBytes(count: number): void {
    this.#numBytes += count;
    const [place] = this.#places;
    if (place === undefined || this.#numBytes < place) return;
    this.#places.shift();
    this.#kill = this.#kill.then(() => this.#killNow());
  }

  /** To be called after the last answer. */
  async end(): Promise<void> {
    await this.#kill;
    assert.is(this.#places.length, 0, 'every place was reached');
  }

  async #killNow(): Promise<void> {
    const { runner } = await gateway.healthWhere(({ status }) => status === 'healthy', 'A runner to kill');
    assert.ok(runner.pid !== null);
    this.interrupted.push(runner.open_requests);
    process.kill(runner.pid, 'SIGKILL');
    await gateway.healthWhere((health) => health.runner.pid !== runner.pid, 'The notice of the death');
  }
}

/** Requests /health until the work is over. Fails with the first answer that is not 200. */
async function watchHealth(isOver: () => boolean): Promise<number> {
  let numAnswers = 0;
  for (; !isOver(); numAnswers += 1) {
    await gateway.health();
    await new Promise((resolve) => setTimeout(resolve, HEALTH_INTERVAL_MS));
  }
  return numAnswers;
}

async function killAll(expected: readonly AnswerDigest[], numBytes: number): Promise<number[]> {
  const numRounds = Math.ceil(KILLS / MAX_KILLS_IN_ROUND);
  const interrupted: number[] = [];
  for (let round = 0; round < numRounds; round += 1) {
    const numKills = Math.min(MAX_KILLS_IN_ROUND, KILLS - round * MAX_KILLS_IN_ROUND);
    // Each round kills at other places.
    const fraction = (kill: number) => ((kill + (round + 0.5) / numRounds) / numKills) * LAST_KILL_AT;
    const killer = new Killer(Array.from({ length: numKills }, (_, kill) => fraction(kill) * numBytes));
    const { restarts } = (await gateway.health()).runner;
    const answers = await runAll(round, (count) => killer.onBytes(count));
    await killer.end();
    for (const [stream, { digest }] of answers.entries())
      assert.is(digest, expected[stream]?.digest, `round ${round}: ${requests[stream]?.name}`);
    const now = await gateway.healthWhere(({ status }) => status === 'healthy', 'Health');
    assert.is(now.runner.restarts, restarts + numKills);
    assert.is(now.runner.open_requests, 0);
    interrupted.push(...killer.interrupted);
  }
  return interrupted;
}

test(`${KILLS} kills change no byte of eight streams`, async () => {
  let numBytes = 0;
  const expected = await runAll(-1, (count) => {
    numBytes += count;
  });
  for (const { text } of expected) assert.ok(text.length > 20, 'the texts are long enough to be killed in');

  let isOver = false;
  const watched = watchHealth(() => isOver);
  let interrupted: number[];
  try {
    interrupted = await killAll(expected, numBytes);
  } finally {
    isOver = true;
  }
  const numHealthy = await watched;
  assert.is(interrupted.length, KILLS);
  assert.ok(Math.min(...interrupted) >= NUM_STREAMS, `open when it was killed: ${interrupted}`);
  console.log(
    `${KILLS} kills of ${NUM_STREAMS} streams, 0 lost; ${numHealthy} of ${numHealthy} health checks 200`,
  );
});

test.run();
