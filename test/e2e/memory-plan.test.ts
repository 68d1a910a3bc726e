/**
 * The memory that a runner plans is what the kernel then counts, and a plan beyond the limit of a cgroup is refused before
 * anything is loaded.
 */
import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { closeMemory, makeKvMemory } from '../../gateway/runner/process/kv-memory.ts';
import { CPU_RUNNER, DEFAULT_MODEL } from '../fixtures/default-model.ts';
import { type MemoryCgroup, memoryCgroup } from '../fixtures/memory-cgroup.ts';
import { temporaryFolder } from '../fixtures/temporary-folder.ts';
import { within } from '../fixtures/within.ts';

const TIMEOUT_MS = 120_000;
const BLOCK_SIZE = 32;
const NUM_SHORT = 32;

/** What `cpu-runner inspect --json` says of the memory. */
interface Plan {
  readonly max_model_len: number;
  readonly num_kvcache_blocks: number;
  readonly process_bytes: number;
  readonly weights_bytes: number;
  readonly kv_cache_bytes: number;
  readonly rows_bytes: number;
  readonly attention_bytes: number;
  readonly logits_bytes: number;
  readonly requests_bytes: number;
  readonly memory_bytes: number;
  readonly available_bytes: number;
  readonly obstacle: string | null;
}

interface Message {
  readonly load_progress?: object;
  readonly ready?: { readonly max_model_len: number; readonly num_blocks: number };
  readonly step?: {
    readonly outputs: readonly { readonly request_id: number; readonly finish_reason?: string }[];
  };
}

function planOf(...flags: string[]): Plan {
  return JSON.parse(execFileSync(CPU_RUNNER, ['inspect', '--json', ...flags], { encoding: 'utf8' }));
}

/** Memory that belongs to no file on a disk, of each mapping of a process. */
function mappingsOf(pid: number | undefined): number[] {
  const mappings = readFileSync(`/proc/${pid}/smaps`, 'utf8').split(/^(?=[0-9a-f]+-[0-9a-f]+ )/m);
  return mappings.map((mapping) => {
    const name = /^.*\/memfd:/.test(mapping) ? 'Rss' : 'Anonymous';
    return Number(new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(mapping)?.[1] ?? 0) * 1024;
  });
}

const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);

/**
 * Serves the plan's model until a request has written to each block of the KV cache, and then 32 others have been computed
 * together. Resolves with what the process holds then.
 */
async function fill(runner: ChildProcess, plan: Plan): Promise<number[]> {
  assert.ok(runner.stdout !== null);
  const ask = (request_id: number, numTokens: number, max_tokens: number): void => {
    const token_ids = Array.from(
      { length: numTokens },
      (_, index) => 100 + ((request_id * 31 + index) % 900),
    );
    runner.stdin?.write(`${JSON.stringify({ generate: { request_id, token_ids, max_tokens } })}\n`);
  };
  let numOpen = 1;
  let held: number[] = [];
  for await (const line of createInterface(runner.stdout)) {
    const { ready, step } = JSON.parse(line) as Message;
    if (ready !== undefined) {
      assert.is(ready.max_model_len, plan.max_model_len);
      assert.is(ready.num_blocks, plan.num_kvcache_blocks);
      ask(1, plan.num_kvcache_blocks * BLOCK_SIZE, 1);
    }
    for (const { request_id, finish_reason } of step?.outputs ?? []) {
      if (finish_reason === undefined) continue;
      numOpen -= 1;
      if (request_id === 1) {
        for (let id = 2; id < 2 + NUM_SHORT; id += 1) ask(id, 4, 20);
        numOpen = NUM_SHORT;
      }
      if (numOpen > 0) continue;
      held = mappingsOf(runner.pid);
      runner.stdin?.end();
    }
  }
  return held;
}

/** passed: a descriptor that the runner has as its descriptor 3. */
function serve(launcher: readonly string[], flags: readonly string[], ...passed: number[]): ChildProcess {
  const [file = CPU_RUNNER, ...args] = [...launcher, CPU_RUNNER, 'serve', '--json-frames', ...flags];
  return spawn(file, args, { stdio: ['pipe', 'pipe', 'inherit', ...passed] });
}

const folder = temporaryFolder();
/** A model of another shape, of random weights. */
const synthetic = join(folder.path, 'synthetic.gguf');
const cgroups: MemoryCgroup[] = [];

const test = suite('memory plan');

test.before(() => {
  const args = ['synth', '--arch', 'llama', '--shape', '160m', '--type', 'q4_0', synthetic];
  execFileSync(CPU_RUNNER, args, { stdio: 'ignore' });
});
test.after(() => {
  for (const cgroup of cgroups) cgroup.remove();
});

// Kept: weights and KV cache are in memory that outlives the runner, as the gateway has it.
for (const [name, model, context, threads, type, numa, isKept] of [
  ['the default model', DEFAULT_MODEL, 512, 1, 'f16', 'off', false],
  ['the default model', DEFAULT_MODEL, 1024, 3, 'q8_0', 'off', false],
  ['a model of random weights', synthetic, 512, 2, 'f32', 'off', false],
  ['the default model', DEFAULT_MODEL, 512, 4, 'f16', '2', false],
  ['the default model', DEFAULT_MODEL, 1024, 2, 'f16', 'off', true],
] as const) {
  const what = isKept ? `${name}, kept` : name;
  const subject = `${what}, ${context} tokens in ${type}, ${threads} threads, --numa ${numa}`;
  test(`what the kernel counts is the plan, within 5 %: ${subject}`, async () => {
    const flags = ['--model', model, '--threads', `${threads}`, '--numa', numa, '--kv-cache-type', type];
    flags.push('--max-num-seqs', `${NUM_SHORT}`, '--num-kvcache-blocks', `${context / BLOCK_SIZE}`);
    const plan = planOf(...flags);
    assert.is(plan.obstacle, null);
    const { process_bytes, weights_bytes, kv_cache_bytes, requests_bytes, memory_bytes } = plan;
    const step = plan.rows_bytes + plan.attention_bytes + plan.logits_bytes;
    assert.is(memory_bytes, process_bytes + weights_bytes + kv_cache_bytes + step + requests_bytes);
    const memory = isKept ? await makeKvMemory(CPU_RUNNER) : undefined;
    const runner =
      memory === undefined
        ? serve([], flags)
        : serve([], [...flags, '--share-weights', '--kv-fd', '3'], memory.own);
    for (const descriptor of Object.values(memory ?? {})) await closeMemory(descriptor);
    const exit = once(runner, 'exit');
    const held = await within(TIMEOUT_MS, 'The requests', fill(runner, plan));
    assert.is((await within(TIMEOUT_MS, 'The exit', exit))[0], 0);
    for (const bytes of [kv_cache_bytes, weights_bytes]) {
      const nearest = held.reduce((best, each) =>
        Math.abs(each - bytes) < Math.abs(best - bytes) ? each : best,
      );
      assert.ok(Math.abs(nearest - bytes) <= 0.05 * bytes, `${bytes} planned, a mapping has ${nearest}`);
    }
    const total = sum(held);
    const planned = memory_bytes - requests_bytes;
    assert.ok(Math.abs(total - planned) <= 0.05 * planned, `${planned} planned, ${total} held`);
    assert.ok(total <= memory_bytes, `${memory_bytes} planned with requests, ${total} held`);
  });
}

test('in a cgroup, 1.2 times the plan runs, and 0.8 times is refused with figures before the load', async () => {
  const cgroup = memoryCgroup(`runnel-test-${process.pid}`);
  if (typeof cgroup === 'string') {
    console.log(`SKIPPED: ${cgroup}`);
    return;
  }
  cgroups.push(cgroup);
  const flags = ['--model', DEFAULT_MODEL, '--threads', '2', '--max-num-seqs', `${NUM_SHORT}`];
  flags.push('--num-kvcache-blocks', '32');
  const plan = planOf(...flags);
  cgroup.setLimit(Math.floor(1.2 * plan.memory_bytes));
  const runner = serve(cgroup.launcher, flags);
  const exit = once(runner, 'exit');
  const held = await within(TIMEOUT_MS, 'The requests', fill(runner, plan));
  assert.equal(await within(TIMEOUT_MS, 'The exit', exit), [0, null]);
  assert.ok(sum(held) > 0.9 * (plan.memory_bytes - plan.requests_bytes));

  const limit = Math.floor(0.8 * plan.memory_bytes);
  cgroup.setLimit(limit);
  const [file = '', ...args] = [...cgroup.launcher, CPU_RUNNER, 'serve', '--json-frames', ...flags];
  const { status, stdout, stderr } = spawnSync(file, args, { encoding: 'utf8', input: '' });
  assert.is(status, 71, stderr);
  const [, needed, available] = /needs (\d+) bytes of memory: .* (\d+) are available/.exec(stderr) ?? [];
  const expected = plan.memory_bytes - plan.process_bytes;
  assert.ok(Math.abs(Number(needed) - expected) < 0.01 * expected, stderr);
  assert.ok(Number(available) < limit && Number(available) > 0.8 * limit, stderr);
  const messages = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  assert.ok(
    messages.every((message) => message.load_progress === undefined && message.ready === undefined),
    stdout,
  );
  assert.is(Number(messages.at(-1).failure.required_bytes), Number(needed));
});

test('the size that nobody has set is chosen within the cgroup', () => {
  const cgroup = memoryCgroup(`runnel-test-small-${process.pid}`);
  if (typeof cgroup === 'string') {
    console.log(`SKIPPED: ${cgroup}`);
    return;
  }
  cgroups.push(cgroup);
  const inspected = (): Plan => {
    const [file = '', ...args] = [
      ...cgroup.launcher,
      CPU_RUNNER,
      'inspect',
      '--json',
      '--model',
      DEFAULT_MODEL,
    ];
    return JSON.parse(execFileSync(file, args, { encoding: 'utf8' }));
  };
  const roomy = planOf('--model', DEFAULT_MODEL);
  const { process_bytes, weights_bytes, rows_bytes, attention_bytes, logits_bytes } = roomy;
  // Half of 256 MiB is less than the model's whole context takes.
  cgroup.setLimit(process_bytes + weights_bytes + rows_bytes + attention_bytes + logits_bytes + 2 ** 28);
  const small = inspected();
  assert.is(small.obstacle, null);
  const cache = small.kv_cache_bytes;
  assert.ok(cache < 2 ** 27 && cache > 2 ** 26, `${cache} of ${small.available_bytes}`);
  assert.ok(small.max_model_len < roomy.max_model_len);
  cgroup.setLimit(2 ** 26);
  assert.match(inspected().obstacle ?? '', /^The model needs \d+ bytes of memory: \d+ for weights/);
});

test.run();
