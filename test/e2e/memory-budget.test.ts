import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { CPU_RUNNER, DEFAULT_MODEL } from '../fixtures/default-model.ts';
import { privateBytes } from '../fixtures/process-memory.ts';
import { cpuRunner } from '../fixtures/ran.ts';
import { temporaryFolder } from '../fixtures/temporary-folder.ts';
import { within } from '../fixtures/within.ts';

/** The default model in a process with a memory budget: its memory when the KV cache is full, and its recording. */

const TIMEOUT_MS = 60_000;
const BUDGET_BYTES = 130_000_000;

const folder = temporaryFolder();
const recording = join(folder.path, 'session.frames');

interface Event {
  readonly ready?: {
    readonly max_model_len: number;
    readonly block_size: number;
    readonly num_blocks: number;
    readonly kv_cache_type: string;
  };
  readonly step?: { readonly outputs: readonly { readonly finish_reason?: string }[] };
}

/**
 * Sends a prompt that needs every block of the cache, and whose rows all need their logits. There is room for one more token,
 * not for five.
 */
function fill(runner: ChildProcess, numTokens: number): void {
  const token_ids = Array.from({ length: numTokens }, (_, index) => 100 + index);
  const generate = { request_id: 1, token_ids, max_tokens: 5, prompt_logprobs: 1 };
  runner.stdin?.write(`${JSON.stringify({ generate })}\n`);
}

const test = suite('memory budget');

async function fillBudget(...more: string[]): Promise<void> {
  const flags = ['--memory-bytes', `${BUDGET_BYTES}`, '--kv-cache-type', 'f32', ...more];
  const runner = spawn(CPU_RUNNER, ['serve', '--model', DEFAULT_MODEL, '--json-frames', ...flags], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const exit = once(runner, 'exit');
  let usedBytes = 0;
  const follow = async () => {
    for await (const line of createInterface(runner.stdout)) {
      const { ready, step } = JSON.parse(line) as Event;
      if (ready !== undefined) {
        assert.is(ready.kv_cache_type, 'f32');
        assert.is(
          ready.max_model_len,
          ready.num_blocks * ready.block_size + 1,
          'one request can have all blocks',
        );
        fill(runner, ready.max_model_len - 1);
      }
      if (step?.outputs[0] === undefined) continue;
      usedBytes = privateBytes(runner.pid as number);
      runner.stdin.end();
    }
  };
  await within(TIMEOUT_MS, 'The answer', follow());
  assert.is((await within(TIMEOUT_MS, 'The exit', exit))[0], 0);
  assert.ok(usedBytes <= BUDGET_BYTES, `${usedBytes} of ${BUDGET_BYTES} bytes`);
  assert.ok(usedBytes >= BUDGET_BYTES * 0.95, `${usedBytes} of ${BUDGET_BYTES} bytes`);
}

test('a process whose KV cache is full is within its budget, by less than a twentieth', () =>
  fillBudget('--record', recording));

test('weights that a process shares count for its budget like its own', () => fillBudget('--share-weights'));

test('its recording is replayed with the cache that it had', () => {
  const { status, stdout, stderr } = cpuRunner('replay', recording);
  assert.is(status, 0, stderr);
  assert.match(stdout, /, 1 tokens, all equal\.\n$/);
});

test('a budget beside --kv-cache-bytes, and a type there is none of, are refused by name', () => {
  const refusal = (...flags: string[]) => {
    const { status, stderr } = cpuRunner('generate', '--model', DEFAULT_MODEL, '--tokens', '1', ...flags);
    assert.is(status, 64);
    return stderr;
  };
  const both = refusal('--memory-bytes', '1000000000', '--kv-cache-bytes', '1000000');
  assert.match(both, '--memory-bytes');
  assert.match(both, '--kv-cache-bytes');
  assert.match(
    refusal('--kv-cache-type', 'q4_0'),
    '--kv-cache-type: q4_0 is not supported; it must be one of f16, f32, q8_0',
  );
  assert.match(refusal('--memory-bytes', '100000000'), /Start with \d+ or more\.\n$/);
});

test.run();
