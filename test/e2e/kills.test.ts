import { basename } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { digestOf } from '../fixtures/answer-digest.ts';
import { DEFAULT_MODEL } from '../fixtures/default-model.ts';
import { Gateway } from '../fixtures/gateway.ts';
import { killAll, runAll } from '../fixtures/killed-streams.ts';
import { type VariedRequest, variedRequests } from '../fixtures/varied-requests.ts';

/**
 * The main promise: the runner is killed with SIGKILL again and again while eight streams are in the middle of their
 * text, and each of them ends byte for byte as if nothing had happened. `make check` has fifty kills.
 */

const KILLS = Number(process.env.RUNNEL_TEST_KILLS ?? 4);
const NUM_STREAMS = 8;
const NUM_TOKENS = 40;
/** In characters, which at most as many tokens made. */
const STOP_LENGTH = 6;
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

/** Requests /health until the work is over. Fails with the first answer that is not 200. */
async function watchHealth(isOver: () => boolean): Promise<number> {
  let numAnswers = 0;
  for (; !isOver(); numAnswers += 1) {
    await gateway.health();
    await new Promise((resolve) => setTimeout(resolve, HEALTH_INTERVAL_MS));
  }
  return numAnswers;
}

test(`${KILLS} kills change no byte of eight streams`, async () => {
  let numBytes = 0;
  const expected = await runAll(gateway, requests, -1, (count) => {
    numBytes += count;
  });
  for (const { text } of expected) assert.ok(text.length > 20, 'the texts are long enough to be killed in');

  let isOver = false;
  const watched = watchHealth(() => isOver);
  let interrupted: readonly number[];
  try {
    ({ interrupted } = await killAll(gateway, requests, expected, numBytes, KILLS));
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
