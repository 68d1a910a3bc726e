/**
 * The runner is killed, and replaced, under streams with short and long contexts, and its KV cache outlives it: no token differs, and hardly a
 * position is computed again, by the next runner or by another one that is there. `make check` has more kills, more streams and
 * longer contexts.
 */
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { pacedRunner } from '../fixtures/default-model.ts';
import { areReady, busiestPid, Gateway, type Health, runnersOf } from '../fixtures/gateway.ts';
import { readNativeAnswer } from '../fixtures/native-stream.ts';
import { llamaFile } from '../fixtures/served-llama.ts';
import { temporaryFolder } from '../fixtures/temporary-folder.ts';
import { until } from '../fixtures/within.ts';

const KILLS = Number(process.env.RUNNEL_TEST_KEPT_KILLS ?? 2);
const NUM_STREAMS = Number(process.env.RUNNEL_TEST_KEPT_STREAMS ?? 2);
const NUM_WORDS = Number(process.env.RUNNEL_TEST_KEPT_WORDS ?? 100);
const SURVIVOR_KILLS = Number(process.env.RUNNEL_TEST_SURVIVOR_KILLS ?? 2);
/** A word is three or four tokens. */
const FEWEST_WORDS = 5;
/** So slow are its steps that no stream ends before the last kill. */
const STEP_MS = 60;
/** The streams are longer than any run and are stopped after the last kill. */
const MAX_TOKENS = 2048;
const BLOCK_TOKENS = 32;
const START_MS = 60_000;
/** For the first tokens all prompts are computed. */
const PATIENCE_MS = 250_000;
const ARGS = ['--backend', 'cpu', '--kv-cache-bytes', '2000000000', '--inference-timeout-sec', '3600'];
const test = suite('kept cache');

/** Its heads have 32 values, which a cache of q8_0 needs. */
const MODEL = temporaryFolder().write('small.gguf', llamaFile({ heads: 1 }));
/** Attention is most of its work, so by default a step would have few tokens of a long prompt. */
const RUNNER = ['--runner', pacedRunner(STEP_MS), '--mixed-prefill-tokens', '1000'];
/** Its letters, each a byte. Other ids would make no text for long. */
const LETTERS = { allowed_token_ids: Array.from('abcdefghijklmnopqrstuvwxyz', (c) => c.charCodeAt(0)) };

const STREAMS = Array.from({ length: NUM_STREAMS }, (_, stream) => stream);

/**
 * From FEWEST_WORDS words in the first stream to NUM_WORDS in the last one. Each is longer than the one before by the same
 * factor, so that prompts of every size are there and all together are soon computed.
 */
function promptOf(stream: number): string {
  const numWords = Math.round(FEWEST_WORDS * (NUM_WORDS / FEWEST_WORDS) ** (stream / (NUM_STREAMS - 1)));
  return Array.from({ length: numWords }, (_, word) => `${(word * 7919 + stream) % 1000}`).join(' ');
}

/** The number of tokens of all prompts together. */
async function numPromptTokens(gateway: Gateway): Promise<number> {
  const counts = STREAMS.map(async (stream) => {
    const response = await gateway.post('/tokenize', { content: promptOf(stream), add_special: true });
    return ((await response.json()) as { tokens: readonly number[] }).tokens.length;
  });
  return (await Promise.all(counts)).reduce((sum, count) => sum + count);
}

/** What has come on a stream. */
interface Progress {
  text: string;
  numTokens: number;
}

async function start(args: readonly string[]): Promise<Gateway> {
  const gateway = await (await Gateway.start(MODEL, [...ARGS, ...RUNNER, ...args])).ready();
  await gateway.healthWhere(areReady, 'All runners');
  return gateway;
}

/** Opens the streams and has them disturbed, then stops them. Returns what has come on each. */
async function disturbed(
  gateway: Gateway,
  disturb: (streams: readonly Progress[]) => Promise<void>,
): Promise<readonly Progress[]> {
  const leave = new AbortController();
  const streams = STREAMS.map((): Progress => ({ text: '', numTokens: 0 }));
  const read = async (progress: Progress, seed: number): Promise<void> => {
    const lengths = { max_tokens: MAX_TOKENS, min_tokens: MAX_TOKENS };
    const body = { job_id: `killed ${seed}`, prompt: promptOf(seed), seed, ...LETTERS, ...lengths };
    const { last } = await readNativeAnswer(
      await gateway.post('/execute', body, leave.signal),
      (text, index) => Object.assign(progress, { text, numTokens: index + 1 }),
    );
    assert.unreachable(`the stream ends before it is stopped: ${JSON.stringify(last)}`);
  };
  const all = Promise.all(streams.map(read));
  try {
    await Promise.race([all, disturb(streams)]);
  } finally {
    leave.abort();
    await all.catch((error: Error) => {
      if (error.name !== 'AbortError') throw error;
    });
  }
  return streams;
}

async function metric(gateway: Gateway, name: string): Promise<number> {
  const text = await (await fetch(`${gateway.url}/metrics`)).text();
  const value = new RegExp(`^${name}\\{[^}]*\\} (\\S+)$`, 'm').exec(text)?.[1];
  assert.ok(value !== undefined, `${name} in\n${text}`);
  return Number(value);
}

/** Waits until each stream has had a token. */
async function goOn(streams: readonly Progress[]): Promise<void> {
  const before = streams.map(({ numTokens }) => numTokens);
  const hasGoneOn = () => streams.every(({ numTokens }, stream) => numTokens > (before[stream] as number));
  await until(PATIENCE_MS, 'Tokens of each stream', hasGoneOn);
}

const numComputed = (gateway: Gateway) => metric(gateway, 'runnel_prefill_tokens_total');

/** Waits until each stream has had a token, and until statistics have come since. */
async function goOnReported(gateway: Gateway, streams: readonly Progress[]): Promise<void> {
  await goOn(streams);
  const generated = 'runnel_generated_tokens_total';
  const reported = await metric(gateway, generated);
  // A runner that has no stream may report the token of its canary.
  await until(START_MS, 'Statistics', async () => (await metric(gateway, generated)) > reported + 1);
}

/** Kills the runner that has the most streams. */
async function killBusiest(gateway: Gateway): Promise<void> {
  const pid = busiestPid(await gateway.healthWhere(areReady, 'All runners'));
  process.kill(pid, 'SIGKILL');
  const isGone = (health: Health) => runnersOf(health).every((each) => each.pid !== pid);
  await gateway.healthWhere(isGone, 'The notice of the death');
}

/** Has each runner replaced by one with the same settings, one after another. */
async function replaceAll(gateway: Gateway): Promise<void> {
  assert.is((await gateway.post('/runner/restart', { wait: true })).status, 200);
}

/**
 * Kills runners under the streams and then replaces them, and checks that no end of a runner costs more than a block of each stream.
 * Each waits until the runner has reported what it has computed, which it does each second.
 */
async function killed(args: readonly string[], numKills: number, numRunners: number) {
  const gateway = await start([...args, '--runners', String(numRunners)]);
  try {
    const numPrompts = await numPromptTokens(gateway);
    /** After each kill. */
    const numAgain: number[] = [];
    const streams = await disturbed(gateway, async (progress) => {
      await goOn(progress);
      await until(START_MS, 'The counters', async () => (await numComputed(gateway)) >= numPrompts);
      await goOnReported(gateway, progress);
      const kills = Array.from({ length: numKills }, () => killBusiest);
      for (const end of [...kills, replaceAll]) {
        const before = await numComputed(gateway);
        await end(gateway);
        await goOnReported(gateway, progress);
        numAgain.push((await numComputed(gateway)) - before);
      }
    });
    assert.is((await gateway.health()).runner.restarts, numKills + numRunners);
    for (const [kill, count] of numAgain.entries()) {
      // The canary of the next runner, and the last block of each stream.
      const most = (kill < numKills ? 1 : numRunners) * (NUM_STREAMS * BLOCK_TOKENS + 1);
      const when = kill < numKills ? `kill ${kill + 1}` : 'the replacement';
      assert.ok(count <= most, `${count} positions were computed again after ${when}, more than ${most}`);
    }
    assert.ok((await metric(gateway, 'runnel_kv_blocks_adopted_total')) > 0);
    assert.is(await metric(gateway, 'runnel_kv_blocks_dropped_total'), 0);
    assert.not.match(gateway.log, /kv_cache_dropped/);
    return { streams, most: Math.max(...numAgain.slice(0, numKills)) };
  } finally {
    await gateway.stop();
  }
}

for (const type of ['f16', 'q8_0'] as const) {
  const args = ['--kv-cache-type', type];
  let runs: (readonly Progress[])[] = [];

  test(`with a cache of ${type}, less than a block of each stream is computed again`, async () => {
    const { streams, most } = await killed(args, KILLS, 1);
    runs = [streams];
    console.log(`${KILLS} kills with kept caches, at most ${most} positions computed again after one`);
  });

  test(`with two runners and caches of ${type}, the survivor reads what the dead one has computed`, async () => {
    const { streams, most } = await killed(args, SURVIVOR_KILLS, 2);
    runs.push(streams);
    console.log(
      `${SURVIVOR_KILLS} kills of one of two runners, at most ${most} positions computed again after one`,
    );
  });

  test(`with a cache of ${type}, the tokens of the killed streams are those of undisturbed ones`, async () => {
    assert.is(runs.length, 2, 'the runs with kills have ended well');
    const gateway = await start(args);
    const undisturbed = async (stream: number): Promise<void> => {
      const killedOnes = runs.map((streams) => streams[stream] as Progress);
      const length = Math.max(...killedOnes.map(({ numTokens }) => numTokens));
      const lengths = { max_tokens: length, min_tokens: length };
      const body = {
        job_id: `undisturbed ${stream}`,
        prompt: promptOf(stream),
        seed: stream,
        ...LETTERS,
        ...lengths,
      };
      const { text } = await readNativeAnswer(await gateway.post('/execute', body));
      for (const { text: killedText } of killedOnes)
        assert.is(text.slice(0, killedText.length), killedText, `stream ${stream}`);
    };
    try {
      await Promise.all(STREAMS.map(undisturbed));
    } finally {
      await gateway.stop();
    }
  });
}

test.run();
