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
    assert.match(stderr, /takes \d+ and one block of the KV cache \d+; \d+ are free\. /);
  }
  assert.equal([...statuses].sort(), [0, SYSTEM]);
});

test('a refusal says how much is missing, and with that much the model is served', () => {
  let memoryBytes = 1_000_000;
  for (;;) {
    const { status, stderr } = generate(memoryBytes);
    if (status === 0) break;
    const found =
      /Insufficient VRAM for KV cache \(need at least 1 MB\): .* is (\d+) of the device's (\d+) bytes; .* takes (\d+) and one block of the KV cache (\d+);/.exec(
        stderr,
      );
    assert.ok(found !== null, stderr);
    const [allowed = 0, total, taken = 0, block = 0] = found.slice(1).map(Number);
    assert.is(total, memoryBytes);
    assert.ok(allowed < taken + block, stderr);
    memoryBytes = Math.ceil((taken + block + ALLOCATION_BYTES) / (allowed / memoryBytes));
  }
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
