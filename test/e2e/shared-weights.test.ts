/**
 * The real runner packs its weights into a file in memory, which the gateway keeps: the runners after it, and those beside it,
 * use the same pages.
 */
import { copyFileSync, readdirSync, readFileSync, readlinkSync, utimesSync } from 'node:fs';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { DEFAULT_MODEL } from '../fixtures/default-model.ts';
import { Gateway, type Health, runnersOf } from '../fixtures/gateway.ts';
import { NativeStreamChecker } from '../fixtures/native-stream.ts';
import { temporaryDirectory } from '../fixtures/supervised.ts';
import { PATIENCE_MS, until } from '../fixtures/within.ts';

const test = suite('shared weights');
const FILE = 'runnel-weights';
const NUM_KILLS = 6;

/** Bytes of the process's mapping of the weights: all of them, its share of them, and what of them is private to it. */
function mappedWeights(pid: number) {
  const sums = { rss: 0, pss: 0, dirty: 0 };
  let isOfWeights = false;
  for (const line of readFileSync(`/proc/${pid}/smaps`, 'utf8').split('\n')) {
    if (/^[0-9a-f]+-[0-9a-f]+ /.test(line)) isOfWeights = line.includes(`/memfd:${FILE}`);
    const [, name, kib] = /^(Rss|Pss|Private_Dirty): +(\d+) kB$/.exec(line) ?? [];
    if (!isOfWeights || name === undefined) continue;
    sums[name === 'Rss' ? 'rss' : name === 'Pss' ? 'pss' : 'dirty'] += Number(kib) * 1024;
  }
  return sums;
}

/** How each runner that has been ready came to its weights. */
function sources(gateway: Gateway): string[] {
  return [...gateway.log.matchAll(/"event":"model_load_complete".*?"weights":"(\w+)"/g)].map(
    ([, source]) => source ?? '',
  );
}

function numHeld(gateway: Gateway): number {
  const folder = `/proc/${gateway.process.pid}/fd`;
  return readdirSync(folder).filter((fd) => {
    try {
      return readlinkSync(join(folder, fd)).includes(FILE);
    } catch {
      return false;
    }
  }).length;
}

async function textOf(
  gateway: Gateway,
  seed: number,
  onToken: (numTokens: number) => void = () => {},
): Promise<string> {
  const body = { job_id: `job-${seed}`, prompt: 'Once upon a time', max_tokens: 24, seed };
  const response = await gateway.post('/execute', body);
  let numTokens = 0;
  const checker = new NativeStreamChecker(response, () => {
    numTokens += 1;
    onToken(numTokens);
  });
  for await (const chunk of response.body as unknown as AsyncIterable<Uint8Array>) checker.push(chunk);
  const { text, last } = checker.end();
  assert.is(last.event, 'end');
  return text;
}

/** gone: a process that was killed, whose death the gateway may not have noticed. */
async function readyRunners(gateway: Gateway, num: number, gone?: number): Promise<number[]> {
  const areAllReady = (health: Health) =>
    runnersOf(health).filter(({ state, pid }) => state === 'ready' && pid !== gone).length === num;
  const health = await gateway.healthWhere(areAllReady, `${num} runners to be ready`);
  return runnersOf(health).map(({ pid }) => pid as number);
}

test('two runners hold the weights once', async () => {
  const gateway = await Gateway.start(DEFAULT_MODEL, ['--backend', 'cpu', '--runners', '2']);
  try {
    const pids = await readyRunners(gateway, 2);
    assert.equal(sources(gateway).sort(), ['packed', 'shared']);
    await Promise.all([textOf(gateway, 1), textOf(gateway, 2)]);
    const [a, b] = pids.map(mappedWeights);
    assert.ok(a !== undefined && b !== undefined && a.rss > 64 * 2 ** 20, 'the default model has more');
    assert.is(a.rss, b.rss);
    const once = (a.pss + b.pss) / a.rss;
    assert.ok(once > 0.99 && once < 1.01, `the runners have ${once} times the weights`);
    const { memory_bytes } = await gateway.health();
    assert.ok(memory_bytes > 0);
  } finally {
    await gateway.stop();
  }
});

test('a runner after a kill uses what the first one packed, and streams go on with the same tokens', async () => {
  const gateway = await (await Gateway.start(DEFAULT_MODEL)).ready();
  try {
    const undisturbed = await textOf(gateway, 7);
    let pid: number | undefined;
    for (let kill = 0; kill < NUM_KILLS; kill++) {
      [pid] = await readyRunners(gateway, 1, pid);
      const text = await textOf(gateway, 7, (numTokens) => {
        if (numTokens === 5 + kill) process.kill(pid as number, 'SIGKILL');
      });
      assert.is(text, undisturbed);
    }
    assert.equal(sources(gateway), ['packed', ...Array.from({ length: NUM_KILLS }, () => 'shared')]);
    assert.is(numHeld(gateway), 1);
    assert.not.match(gateway.log, /weights_dropped/);
  } finally {
    await gateway.stop();
  }
});

test('the weights of a file that has changed are packed anew, and the old ones are given back', async () => {
  const folder = temporaryDirectory();
  const path = folder.path('model.gguf');
  copyFileSync(DEFAULT_MODEL, path);
  const gateway = await (await Gateway.start(path)).ready();
  try {
    const text = await textOf(gateway, 3);
    const [pid] = await readyRunners(gateway, 1);
    utimesSync(path, new Date(), new Date());
    process.kill(pid as number, 'SIGKILL');
    await until(PATIENCE_MS, 'another runner to be ready', () => sources(gateway).length === 2);
    assert.equal(sources(gateway), ['packed', 'packed']);
    assert.is(numHeld(gateway), 1);
    assert.is(await textOf(gateway, 3), text);
  } finally {
    await gateway.stop();
  }
});

test.run();
