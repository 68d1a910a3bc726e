import { readdirSync } from 'node:fs';
import { basename, join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { digestOf } from '../fixtures/answer-digest.ts';
import { DEFAULT_MODEL, pacedRunner, TINY_MODEL } from '../fixtures/default-model.ts';
import { Gateway, type Health } from '../fixtures/gateway.ts';
import { counted, killAll, runAll } from '../fixtures/killed-streams.ts';
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
/** As a fraction of the bytes of a stream. */
const KILL_AT = 0.4;

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

const GOLDEN_MODELS = join(TINY_MODEL, '../models');
/** So long that a kill comes before the end of its stream. */
const STEP_MS = 20;

test('a kill in the middle changes no byte of a stream of any architecture, while the others stream, too', async () => {
  // Encoders write nothing.
  const files = readdirSync(GOLDEN_MODELS).filter((file) => /^(?!.*bert).*-q8_0\.gguf$/.test(file));
  assert.ok(files.length >= 16);
  const paths = files.flatMap((file) => ['--model', join(GOLDEN_MODELS, file)]);
  const flags = ['--port', '0', '--backend', 'cpu', '--threads', '1', '--runner', pacedRunner(STEP_MS)];
  const several = await (await Gateway.startOn(undefined, [...flags, ...paths])).ready();
  type Places = { readonly models: readonly { name: string; pid: number; restarts: number }[] };
  const placesIn = (health: Health) =>
    new Map((health as unknown as Places).models.map((each) => [each.name, each]));
  const answers = (killAt: readonly number[], pids: ReturnType<typeof placesIn>) =>
    Promise.all(
      files.map(async (file, index) => {
        const name = basename(file, '.gguf');
        const lengths = { max_tokens: 3 * NUM_TOKENS, min_tokens: 3 * NUM_TOKENS };
        const body = { model: name, prompt: 'Once upon a time', ...lengths, seed: 7, temperature: 0.8 };
        const path = '/v1/completions';
        let numBytes = 0;
        let pid = pids.get(name)?.pid;
        const response = await several.post(path, { ...body, logprobs: 1, stream: true });
        const { digest } = await digestOf(
          path,
          counted(response, (count) => {
            numBytes += count;
            if (pid === undefined || numBytes <= (killAt[index] ?? Number.POSITIVE_INFINITY)) return;
            process.kill(pid, 'SIGKILL');
            pid = undefined;
          }),
        );
        return { name, digest, numBytes };
      }),
    );
  try {
    const undisturbed = await answers([], new Map());
    const middles = undisturbed.map(({ numBytes }) => numBytes * KILL_AT);
    const disturbed = await answers(middles, placesIn(await several.health()));
    for (const [index, { name, digest }] of disturbed.entries())
      assert.is(digest, undisturbed[index]?.digest, name);
    const areRestarted = (health: Health) =>
      [...placesIn(health).values()].every(({ restarts }) => restarts === 1);
    await several.healthWhere(areRestarted, 'A restart of each');
  } finally {
    await several.stop();
  }
});

test.run();
