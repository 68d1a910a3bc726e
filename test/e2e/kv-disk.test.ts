/**
 * What was computed outlives the gateway in a file: after its end, however it comes, and beyond the size of the KV cache, a prompt is
 * computed from where it was left, and the answer is the same. `make check` has more prompts and more kills.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import * as assert from 'uvu/assert';
import { childrenOf } from '../fixtures/child-processes.ts';
import { Gateway, gatewaySuite } from '../fixtures/gateway.ts';
import { readNativeAnswer } from '../fixtures/native-stream.ts';
import { llamaFile } from '../fixtures/served-llama.ts';
import { temporaryFolder } from '../fixtures/temporary-folder.ts';
import { PATIENCE_MS, until } from '../fixtures/within.ts';

const KILLS = Number(process.env.RUNNEL_TEST_DISK_KILLS ?? 1);
const NUM_PROMPTS = Number(process.env.RUNNEL_TEST_DISK_PROMPTS ?? 8);
const BLOCK_TOKENS = 32;
const NUM_TOKENS = 12;
const test = gatewaySuite('kv disk');

const folder = temporaryFolder();
/** Its heads have 32 values, which a cache of q8_0 needs. */
const MODEL = folder.write('small.gguf', llamaFile({ heads: 1 }));
const LETTERS = { allowed_token_ids: Array.from('abcdefghijklmnopqrstuvwxyz', (c) => c.charCodeAt(0)) };
const PROMPTS = Array.from({ length: NUM_PROMPTS }, (_, seed) => seed);
const promptOf = (seed: number): string =>
  Array.from({ length: 60 + 30 * (seed % 3) }, (_, word) => `${(word * 7919 + seed) % 1000}`).join(' ');

let numFiles = 0;
const diskArgs = (): string[] => [
  ...['--kv-disk', join(folder.path, `kv-${++numFiles}`), '--kv-disk-bytes', String(2 ** 27)],
];

async function start(args: readonly string[]): Promise<Gateway> {
  const gateway = await (await Gateway.start(MODEL, ['--backend', 'cpu', ...args])).ready();
  if (args.includes('--kv-disk')) await gateway.logged(/kv_disk_opened/);
  return gateway;
}

async function answer(
  gateway: Gateway,
  seed: number,
): Promise<{ readonly text: string; readonly numPromptTokens: number }> {
  const lengths = { max_tokens: NUM_TOKENS, min_tokens: NUM_TOKENS };
  let text = '';
  const body = {
    job_id: `kept ${seed} ${Math.random()}`,
    prompt: promptOf(seed),
    seed,
    ...LETTERS,
    ...lengths,
  };
  await readNativeAnswer(await gateway.post('/execute', body), (so_far) => {
    text = so_far;
  });
  const tokenized = await gateway.post('/tokenize', { content: promptOf(seed), add_special: true });
  return { text, numPromptTokens: ((await tokenized.json()) as { tokens: readonly number[] }).tokens.length };
}

async function metric(gateway: Gateway, name: string): Promise<number> {
  const text = await (await fetch(`${gateway.url}/metrics`)).text();
  const value = new RegExp(`^${name}(?:\\{[^}]*\\})? (\\S+)$`, 'm').exec(text)?.[1];
  assert.ok(value !== undefined, `${name} in\n${text}`);
  return Number(value);
}

/** What the prompts are answered, one after the other. */
async function answers(
  gateway: Gateway,
): Promise<{ readonly texts: string[]; readonly numPromptTokens: number }> {
  const all = [];
  for (const seed of PROMPTS) all.push(await answer(gateway, seed));
  return {
    texts: all.map(({ text }) => text),
    numPromptTokens: all.reduce((sum, each) => sum + each.numPromptTokens, 0),
  };
}

/** The positions that runners have computed of prompts, once they have reported the answers. */
async function numComputed(gateway: Gateway, numAnswers: number): Promise<number> {
  const wanted = numAnswers * NUM_TOKENS;
  const generated = 'runnel_generated_tokens_total';
  await until(PATIENCE_MS, 'Statistics', async () => (await metric(gateway, generated)) >= wanted);
  return metric(gateway, 'runnel_prefill_tokens_total');
}

let undisturbed: readonly string[] = [];

test('without a file, the answers are these', async () => {
  const gateway = await start([]);
  undisturbed = (await answers(gateway)).texts;
  assert.is(await metric(gateway, 'runnel_kv_disk_blocks'), 0);
  await gateway.stop();
});

for (const signal of ['SIGTERM', 'SIGKILL'] as const)
  test(`after ${signal} to the gateway, less than a block of each prompt is computed`, async () => {
    const args = diskArgs();
    let gateway = await start(args);
    const first = await answers(gateway);
    assert.equal(first.texts, undisturbed);
    for (let kill = 0; kill < KILLS; kill += 1) {
      await gateway.stop(signal);
      gateway = await start(args);
      const again = await answers(gateway);
      assert.equal(again.texts, undisturbed);
      const most = NUM_PROMPTS * BLOCK_TOKENS;
      const computed = await numComputed(gateway, NUM_PROMPTS);
      assert.ok(computed <= most, `${computed} of ${again.numPromptTokens} tokens were computed again`);
      await until(
        PATIENCE_MS,
        'The count of loaded blocks',
        async () => (await metric(gateway, 'runnel_kv_disk_loaded_blocks_total')) > 0,
      );
      assert.is(await metric(gateway, 'runnel_kv_disk_dropped_blocks_total'), 0);
    }
    console.log(`${KILLS} ends of the gateway with a kept file`);
    await gateway.stop();
  });

test('what has left the KV cache is found in the file, with two runners too', async () => {
  const small = ['--num-kvcache-blocks', '60', '--max-model-len', '1000'];
  for (const runners of [[], ['--runners', '2']]) {
    const gateway = await start([...diskArgs(), ...small, ...runners]);
    const saved = () => metric(gateway, 'runnel_kv_disk_blocks');
    let numPromptTokens = 0;
    let numBlocks = 0;
    for (const seed of PROMPTS) {
      const each = await answer(gateway, seed);
      assert.is(each.text, undisturbed[seed]);
      numPromptTokens += each.numPromptTokens;
      numBlocks += Math.floor((each.numPromptTokens - 1) / BLOCK_TOKENS);
      // The cache holds what some prompts have computed until it is saved.
      if (seed % 3 === 2)
        await until(PATIENCE_MS, 'All blocks to be saved', async () => (await saved()) >= numBlocks);
    }
    const computed = await numComputed(gateway, NUM_PROMPTS);
    assert.ok(computed >= numPromptTokens);
    const again = await answers(gateway);
    assert.equal(again.texts, undisturbed);
    const more = (await numComputed(gateway, 2 * NUM_PROMPTS)) - computed;
    assert.ok(more <= NUM_PROMPTS * BLOCK_TOKENS, `${more} tokens were computed again`);
    assert.is(await metric(gateway, 'runnel_kv_blocks_dropped_total'), 0);
    await gateway.stop();
  }
});

test('a keeper that is killed loses no answer, and the next one goes on with the file', async () => {
  const gateway = await start(diskArgs());
  const first = await answers(gateway);
  assert.equal(first.texts, undisturbed);
  const isKeeper = (pid: number): boolean =>
    readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('keeper-program');
  process.kill(childrenOf(gateway.process.pid).find(isKeeper) as number, 'SIGKILL');
  await gateway.logged(/kv_disk_failed/);
  assert.equal((await answers(gateway)).texts, undisturbed);
  await gateway.stop();
});

test('a gateway waits for a file that another one uses, and serves meanwhile', async () => {
  const args = diskArgs();
  const first = await start(args);
  await answers(first);
  const second = await (await Gateway.start(MODEL, ['--backend', 'cpu', ...args])).ready();
  await second.logged(/kv_disk_waiting/);
  assert.equal((await answers(second)).texts, undisturbed);
  await first.stop();
  await second.logged(/kv_disk_opened/);
  assert.ok((await metric(second, 'runnel_kv_disk_blocks')) > 0);
  await second.stop();
});

test('a file that something else has written is refused at the start', async () => {
  const letter = folder.write('letter', 'Dear reader');
  const failed = await Gateway.start(MODEL, ['--kv-disk', letter, '--kv-disk-bytes', String(2 ** 27)]).then(
    () => '',
    ({ message }: Error) => message,
  );
  assert.match(
    failed,
    /--kv-disk: The file .*letter cannot keep a KV cache: it has 11 bytes that something else wrote/,
  );
});

test.run();
