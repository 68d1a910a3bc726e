import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { CPU_RUNNER, CUDA_RUNNER_EMULATED, TINY_MODEL } from '../fixtures/default-model.ts';
import { type Ran, ran } from '../fixtures/ran.ts';

/** A device with too little memory: all memory is requested before the first step, and an error names what is missing. */

const SYSTEM = 71;
const ENOUGH_BYTES = 64_000_000;
const NUM_SIZES = 12;
/** The device allocates memory in multiples of this. */
const ALLOCATION_BYTES = 256;

const test = suite('device memory');

function generate(memoryBytes: number): Ran {
  const prompt = ['--tokens', '1,2,3', '--max-tokens', '2', '--temperature', '0.8'];
  const env = { RUNNEL_EMULATOR_MEMORY_BYTES: String(memoryBytes) };
  return ran(CUDA_RUNNER_EMULATED, ['generate', '--model', TINY_MODEL, ...prompt], env);
}

test('a start without enough memory exits with needed and available bytes, or serves', () => {
  const statuses = new Set<number | null>();
  for (let i = 0; i <= NUM_SIZES; ++i) {
    const memoryBytes = Math.round(ENOUGH_BYTES / 1.7 ** (NUM_SIZES - i));
    const { status, stderr } = generate(memoryBytes);
    statuses.add(status);
    if (status === 0) continue;
    assert.is(status, SYSTEM, `${memoryBytes} bytes: ${stderr}`);
    assert.match(
      stderr,
      /needs? (at least )?\d+ .*[;,] (\d+ of \d+ bytes are free|and half of what is free .* is \d+)/,
    );
  }
  assert.equal([...statuses].sort(), [0, SYSTEM]);
});

test('a KV cache that does not fit is refused with the size it needs', () => {
  // Each refusal says how much is missing. The test adds that and tries again; the cache is refused last.
  let memoryBytes = 1_000_000;
  let answer = generate(memoryBytes);
  while (true) {
    const found = /needs? (\d+) .*; (\d+) of \d+ bytes are free/.exec(answer.stderr);
    if (found === null) break;
    memoryBytes += Math.max(Number(found[1]) - Number(found[2]), ALLOCATION_BYTES);
    answer = generate(memoryBytes);
  }
  assert.is(answer.status, SYSTEM);
  const [, needed, half] =
    /Insufficient VRAM for KV cache \(need at least 1 MB\): .* takes (\d+) bytes, and half of .* is (\d+)\./.exec(
      answer.stderr,
    ) ?? [];
  assert.ok(Number(half) < Number(needed), answer.stderr);
});

test('bench reports device memory besides the KV cache: weights and step buffers', () => {
  const work = ['--prompt', '8', '--generate', '4', '--batch', '2', '--json'];
  // The buffers of a step depend on the context, and the context on the cache unless it is given.
  const bench = ['bench', '--model', TINY_MODEL, ...work, '--max-model-len', '64'];
  const small = ran(CUDA_RUNNER_EMULATED, [...bench, '--num-kvcache-blocks', '2']);
  const large = ran(CUDA_RUNNER_EMULATED, [...bench, '--num-kvcache-blocks', '4']);
  const bytesOf = ({ stdout, stderr }: typeof small): Record<string, number> => {
    assert.ok(stdout !== '', stderr);
    return JSON.parse(stdout) as Record<string, number>;
  };
  const { weights_bytes: weights = 0, device_bytes_beside_kv_cache: beside = 0 } = bytesOf(small);
  assert.ok(weights > 0 && beside > weights, `${weights} of ${beside}`);
  assert.is(bytesOf(large).device_bytes_beside_kv_cache, beside, 'whatever the cache');
  const onCpu = ran(CPU_RUNNER, [...bench, '--num-kvcache-blocks', '2']);
  assert.not.match(onCpu.stdout, 'beside_kv_cache');
});

test.run();
