/**
 * The runner is killed under streams with long contexts, and its KV cache outlives it: no token differs, and hardly a
 * position is computed again. `make check` has more kills, more streams and longer contexts.
 */
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { DEFAULT_MODEL } from '../fixtures/default-model.ts';
import { Gateway } from '../fixtures/gateway.ts';
import { NativeStreamChecker } from '../fixtures/native-stream.ts';
import { until } from '../fixtures/within.ts';

const KILLS = Number(process.env.RUNNEL_TEST_KEPT_KILLS ?? 2);
const NUM_STREAMS = Number(process.env.RUNNEL_TEST_KEPT_STREAMS ?? 2);
const NUM_WORDS = Number(process.env.RUNNEL_TEST_KEPT_WORDS ?? 100);
const NUM_TOKENS = 20 + 12 * KILLS;
const BLOCK_TOKENS = 32;
const START_MS = 60_000;

const test = suite('kept cache');

const promptOf = (stream: number): string =>
  Array.from({ length: NUM_WORDS }, (_, word) => `${(word * 7919 + stream) % 1000}`).join(' ');

/** The texts of all streams. onTokens gets the number of tokens that have come on all of them together. */
async function texts(gateway: Gateway, name: string, onTokens = (_: number) => {}): Promise<string[]> {
  let numTokens = 0;
  const onToken = (): void => {
    numTokens += 1;
    onTokens(numTokens);
  };
  return Promise.all(
    Array.from({ length: NUM_STREAMS }, async (_, stream) => {
      const body = { prompt: promptOf(stream), max_tokens: NUM_TOKENS, min_tokens: NUM_TOKENS, seed: stream };
      const response = await gateway.post('/execute', { job_id: `${name} ${stream}`, ...body });
      const checker = new NativeStreamChecker(response, onToken);
      for await (const chunk of response.body as unknown as AsyncIterable<Uint8Array>) checker.push(chunk);
      const { text, last } = checker.end();
      assert.is(last.event, 'end');
      return text;
    }),
  );
}

async function metric(gateway: Gateway, name: string): Promise<number> {
  const text = await (await fetch(`${gateway.url}/metrics`)).text();
  const value = new RegExp(`^${name}\\{[^}]*\\} (\\S+)$`, 'm').exec(text)?.[1];
  assert.ok(value !== undefined, `${name} in\n${text}`);
  return Number(value);
}

/** Waits until the runner has reported all tokens that the gateway has counted. */
async function settledPrefill(gateway: Gateway, least: number): Promise<number> {
  await until(
    START_MS,
    'The counters',
    async () => (await metric(gateway, 'runnel_prefill_tokens_total')) >= least,
  );
  return metric(gateway, 'runnel_prefill_tokens_total');
}

/** Kills the runner when so many tokens have come since the last death, so that each runner makes some. */
function killer(gateway: Gateway, everyTokens: number) {
  let kills = Promise.resolve();
  let numKills = 0;
  let numTokens = 0;
  let due = everyTokens;
  const kill = async (): Promise<void> => {
    const { runner } = await gateway.healthWhere(({ status }) => status === 'healthy', 'A runner to kill');
    process.kill(runner.pid as number, 'SIGKILL');
    await gateway.healthWhere((health) => health.runner.pid !== runner.pid, 'The notice of the death');
    due = numTokens + everyTokens;
  };
  return {
    onTokens: (count: number): void => {
      numTokens = count;
      if (numKills === KILLS || numTokens < due) return;
      due = Number.POSITIVE_INFINITY;
      numKills += 1;
      kills = kills.then(kill);
    },
    end: async (): Promise<number> => {
      await kills;
      return numKills;
    },
  };
}

for (const type of ['f16', 'q8_0'] as const) {
  test(`with a cache of ${type}, no token differs and less than a block of each stream is computed again`, async () => {
    const args = ['--backend', 'cpu', '--kv-cache-type', type, '--kv-cache-bytes', '2000000000'];
    const gateway = await (await Gateway.start(DEFAULT_MODEL, args)).ready();
    try {
      const expected = await texts(gateway, 'undisturbed');
      const before = await settledPrefill(gateway, NUM_STREAMS * NUM_WORDS);
      const kills = killer(gateway, 4 * NUM_STREAMS);
      assert.equal(await texts(gateway, 'killed', kills.onTokens), expected);
      const numKills = await kills.end();
      assert.is(numKills, KILLS);
      const adopted = 'runnel_kv_blocks_adopted_total';
      await until(START_MS, 'The adopted blocks', async () => (await metric(gateway, adopted)) > 0);
      const numComputed = (await settledPrefill(gateway, 0)) - before;
      // The second request of each stream, the canary of each runner, and the last block after each kill.
      const most = NUM_STREAMS * BLOCK_TOKENS + numKills * (NUM_STREAMS * BLOCK_TOKENS + 1);
      assert.ok(numComputed <= most, `${numComputed} positions were computed, more than ${most}`);
      assert.is(await metric(gateway, 'runnel_kv_blocks_dropped_total'), 0);
      assert.not.match(gateway.log, /kv_cache_dropped/);
      console.log(`${numKills} kills with kept caches, ${numComputed} positions computed`);
    } finally {
      await gateway.stop();
    }
  });
}

test.run();
