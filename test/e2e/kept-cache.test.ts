/**
 * The runner is killed under streams with long contexts, and its KV cache outlives it: no token differs, and hardly a
 * position is computed again, by the next runner or by another one that is there. `make check` has more kills, more streams and
 * longer contexts.
 */
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { DEFAULT_MODEL } from '../fixtures/default-model.ts';
import { Gateway, type Health } from '../fixtures/gateway.ts';
import { NativeStreamChecker } from '../fixtures/native-stream.ts';
import { until } from '../fixtures/within.ts';

const KILLS = Number(process.env.RUNNEL_TEST_KEPT_KILLS ?? 2);
const NUM_STREAMS = Number(process.env.RUNNEL_TEST_KEPT_STREAMS ?? 2);
const NUM_WORDS = Number(process.env.RUNNEL_TEST_KEPT_WORDS ?? 100);
const SURVIVOR_KILLS = Number(process.env.RUNNEL_TEST_SURVIVOR_KILLS ?? 2);
const NUM_TOKENS = 20 + 12 * KILLS;
/** Between two kills of one of two runners, statistics come, and so each stream goes on for a second or two. */
const SURVIVED_TOKENS = 80 + 40 * SURVIVOR_KILLS;
const BLOCK_TOKENS = 32;
const START_MS = 60_000;

const test = suite('kept cache');

const promptOf = (stream: number): string =>
  Array.from({ length: NUM_WORDS }, (_, word) => `${(word * 7919 + stream) % 1000}`).join(' ');

/** The texts of all streams. onTokens gets the number of tokens that have come on all of them together, and on each. */
async function texts(
  gateway: Gateway,
  name: string,
  onTokens: (numTokens: number, ofStreams: readonly number[]) => void = () => {},
  length = NUM_TOKENS,
): Promise<string[]> {
  let numTokens = 0;
  const ofStreams = new Array<number>(NUM_STREAMS).fill(0);
  return Promise.all(
    ofStreams.map(async (_, stream) => {
      const onToken = (): void => {
        numTokens += 1;
        ofStreams[stream] = (ofStreams[stream] as number) + 1;
        onTokens(numTokens, ofStreams);
      };
      const body = { prompt: promptOf(stream), max_tokens: length, min_tokens: length, seed: stream };
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

interface RunnerHealth {
  readonly state: string;
  readonly pid: number;
  readonly open_requests: number;
}

const runnersOf = (health: Health) =>
  (health as Health & { readonly runners: readonly RunnerHealth[] }).runners;
const areReady = (health: Health) => runnersOf(health).every(({ state }) => state === 'ready');

/** Waits until each stream has had a token, and the statistics say what was computed until then. */
async function goOn(gateway: Gateway, tokensOf: () => readonly number[]): Promise<void> {
  const before = [...tokensOf()];
  const hasGoneOn = async () => tokensOf().every((count, stream) => count > (before[stream] as number));
  await until(START_MS, 'Tokens of each stream', hasGoneOn);
  const generated = 'runnel_generated_tokens_total';
  const reported = await metric(gateway, generated);
  // A runner that has no stream may report the token of its canary.
  await until(START_MS, 'Statistics', async () => (await metric(gateway, generated)) > reported + 1);
}

/** Kills the runner that has the most streams. */
async function killBusiest(gateway: Gateway): Promise<void> {
  const runners = runnersOf(await gateway.healthWhere(areReady, 'Two runners'));
  const { pid } = runners.reduce((most, each) => (each.open_requests > most.open_requests ? each : most));
  process.kill(pid, 'SIGKILL');
  const isGone = (health: Health) => runnersOf(health).every((each) => each.pid !== pid);
  await gateway.healthWhere(isGone, 'The notice of the death');
}

for (const type of ['f16', 'q8_0'] as const) {
  test(`with two runners and caches of ${type}, the survivor reads what the dead one has computed`, async () => {
    const args = [
      '--backend',
      'cpu',
      '--runners',
      '2',
      '--kv-cache-type',
      type,
      '--kv-cache-bytes',
      '2000000000',
    ];
    const start = async () => {
      const gateway = await (await Gateway.start(DEFAULT_MODEL, args)).ready();
      await gateway.healthWhere(areReady, 'Two runners');
      return gateway;
    };
    const undisturbed = await start();
    let expected: string[];
    let numPrompt: number;
    try {
      expected = await texts(undisturbed, 'undisturbed', () => {}, SURVIVED_TOKENS);
      await until(
        START_MS,
        'The counters',
        async () =>
          (await metric(undisturbed, 'runnel_generated_tokens_total')) >= NUM_STREAMS * SURVIVED_TOKENS,
      );
      numPrompt = await metric(undisturbed, 'runnel_prefill_tokens_total');
    } finally {
      await undisturbed.stop();
    }
    const gateway = await start();
    try {
      let counts: readonly number[] = [];
      let kills: Promise<void> | undefined;
      const killAll = async () => {
        await settledPrefill(gateway, numPrompt);
        for (let kill = 0; kill < SURVIVOR_KILLS; kill += 1) {
          await goOn(gateway, () => counts);
          await killBusiest(gateway);
        }
        await goOn(gateway, () => counts);
      };
      const onTokens = (_: number, ofStreams: readonly number[]) => {
        counts = ofStreams;
        if (ofStreams.every((count) => count > 0)) kills ??= killAll();
      };
      assert.equal(await texts(gateway, 'killed', onTokens, SURVIVED_TOKENS), expected);
      await kills;
      assert.is((await gateway.health()).runner.restarts, SURVIVOR_KILLS, 'all kills came under the streams');
      const numComputed = (await settledPrefill(gateway, numPrompt)) - numPrompt;
      // The canary of each next runner, and the last block of each stream.
      const most = SURVIVOR_KILLS * (NUM_STREAMS * BLOCK_TOKENS + 1);
      assert.ok(numComputed <= most, `${numComputed} positions were computed, more than ${most}`);
      assert.ok((await metric(gateway, 'runnel_kv_blocks_adopted_total')) > 0);
      assert.is(await metric(gateway, 'runnel_kv_blocks_dropped_total'), 0);
      assert.not.match(gateway.log, /kv_cache_dropped/);
      console.log(`${SURVIVOR_KILLS} kills of one of two runners, ${numComputed} positions computed`);
    } finally {
      await gateway.stop();
    }
  });
}

test.run();
