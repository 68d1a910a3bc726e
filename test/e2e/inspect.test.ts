/** The memory that `runnel inspect` predicts for a model is what the gateway then reports. */
import { execFileSync } from 'node:child_process';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { Inspection } from '../../gateway/cli/inspect.ts';
import { CPU_RUNNER, DEFAULT_MODEL } from '../fixtures/default-model.ts';
import { Gateway } from '../fixtures/gateway.ts';

const test = suite('inspect');

test('weights and cache of a plan are those of the model that is served', async () => {
  const args = ['inspect', DEFAULT_MODEL, '--runner', CPU_RUNNER, '--backend', 'cpu', '--context', '1024'];
  const output = execFileSync('node', ['gateway/runnel.js', ...args, '--batch', '3', '--json'], {
    encoding: 'utf8',
  });
  const { memory, obstacle, tensors } = JSON.parse(output) as Inspection;
  assert.is(obstacle, null);
  assert.ok(memory !== null && tensors !== null);
  const gateway = await Gateway.start(DEFAULT_MODEL, ['--max-model-len', '1024', '--max-num-seqs', '3']);
  try {
    await gateway.ready();
    const { runner } = (await (await fetch(`${gateway.url}/health`)).json()) as {
      runner: { weights_bytes: number; kv_cache_bytes: number; kv_cache_bytes_used: number };
    };
    assert.is(runner.kv_cache_bytes, memory.kv_cache_bytes);
    assert.is(runner.kv_cache_bytes_used, 0);
    assert.is(runner.weights_bytes, memory.weights_bytes);
    const step = memory.rows_bytes + memory.attention_bytes + memory.logits_bytes;
    assert.is(
      memory.total_bytes,
      memory.process_bytes + memory.weights_bytes + memory.kv_cache_bytes + step + memory.requests_bytes,
      'nothing is counted twice',
    );
  } finally {
    await gateway.stop();
  }
});

test.run();
