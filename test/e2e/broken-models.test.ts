import { spawnSync } from 'node:child_process';
import {
  closeSync,
  copyFileSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { loadModel } from '../../gateway/models/model-slot.ts';
import { CPU_RUNNER, DEFAULT_MODEL } from '../fixtures/default-model.ts';
import { Gateway } from '../fixtures/gateway.ts';
import { u64 } from '../fixtures/gguf-writer.ts';
import { readNativeAnswer } from '../fixtures/native-stream.ts';
import { cpuRunner } from '../fixtures/ran.ts';
import { PATIENCE_MS } from '../fixtures/within.ts';

/** Damaged copies of the default model cause one clear sentence and the right status, and the gateway stays up. */

const TRUNCATIONS = 40;
const BAD_MODEL = 65;
const HEADER = { magic: 0, version: 4, numTensors: 8, numEntries: 16 };

let folder: string;
let copy: string;
const test = suite('broken models');

test.before.each(() => {
  folder = mkdtempSync(join(tmpdir(), 'runnel-broken-'));
  copy = join(folder, 'copy.gguf');
  copyFileSync(DEFAULT_MODEL, copy);
});
test.after.each(() => {
  rmSync(folder, { recursive: true });
});

/** Both readers must refuse the file: the runner, started by hand, and the gateway's own. */
async function assertRefused(what: string, fault = /./): Promise<void> {
  const args = ['--model', copy, '--tokens', '1', '--max-tokens', '1'];
  const { status, stderr, stdout } = cpuRunner('generate', ...args);
  assert.is(status, BAD_MODEL, `${what}: ${stderr}`);
  assert.is(stdout, '', what);
  assert.match(stderr, /^cpu-runner: [^\n]+\n$/, `${what}: one sentence`);
  assert.ok(stderr.includes(copy), `${what} names the file: ${stderr}`);
  assert.match(stderr, fault, what);
}

async function gatewayRefuses(what: string): Promise<void> {
  const error = await loadModel(copy).then(
    () => assert.unreachable(`${what}: the gateway takes it`),
    (thrown: unknown) => thrown,
  );
  assert.is((error as { exitCode?: number }).exitCode, BAD_MODEL, what);
  assert.ok((error as Error).message.includes(copy), what);
}

function overwrite(position: number, bytes: Uint8Array): void {
  const file = openSync(copy, 'r+');
  writeSync(file, bytes, 0, bytes.length, position);
  closeSync(file);
}

/** The position of the value of a metadata entry of fixed size: after the key and the four bytes of its type. */
function valuePosition(key: string): number {
  const position = readFileSync(copy).indexOf(key);
  assert.ok(position > 0, key);
  return position + key.length + 4;
}

test(`cut off at ${TRUNCATIONS} places`, async () => {
  const { size } = statSync(copy);
  // Half of the places are in the metadata (the first 1.8 %), half in the tensors. They go from the end to the start,
  // since the file can only be shortened.
  const metadataBytes = size * 0.018;
  const places = Array.from({ length: TRUNCATIONS }, (_, i) => {
    const half = TRUNCATIONS / 2;
    return Math.floor(
      i < half
        ? size - 1 - ((size - metadataBytes) * i) / half
        : (metadataBytes * (TRUNCATIONS - 1 - i)) / half,
    );
  });
  for (const bytes of places) {
    truncateSync(copy, bytes);
    await assertRefused(`${bytes} bytes`);
    await gatewayRefuses(`${bytes} bytes`);
  }
});

test('another magic, another version, absurd counts', async () => {
  overwrite(HEADER.magic, Buffer.from('GGML'));
  await assertRefused('magic', /GGML/);
  await gatewayRefuses('magic');
  overwrite(HEADER.magic, Buffer.from('GGUF'));

  overwrite(HEADER.version, Uint8Array.of(99));
  await assertRefused('version', /99/);
  await gatewayRefuses('version');
  overwrite(HEADER.version, Uint8Array.of(3));

  for (const place of [HEADER.numTensors, HEADER.numEntries]) {
    const good = readFileSync(copy).subarray(place, place + 8);
    for (const count of [2n ** 64n - 1n, 2n ** 63n, 2n ** 32n, 2n ** 20n]) {
      overwrite(place, u64(count));
      await assertRefused(`count ${count}`);
      await gatewayRefuses(`count ${count}`);
    }
    overwrite(place, good);
  }
});

test('hyper-parameters that something is divided by are not zero', async () => {
  for (const key of [
    'llama.attention.head_count',
    'llama.attention.head_count_kv',
    'llama.block_count',
    'llama.embedding_length',
    'llama.feed_forward_length',
    'llama.context_length',
    'llama.rope.freq_base',
  ]) {
    const at = valuePosition(key);
    const good = Buffer.from(readFileSync(copy).subarray(at, at + 4));
    overwrite(at, Buffer.alloc(4));
    await assertRefused(key, new RegExp(key.replaceAll('.', '\\.')));
    overwrite(at, good);
  }
});

test('by hand, several processes refuse a model in one sentence, and all of them end', () => {
  truncateSync(copy, 50_000_000);
  const args = ['generate', '--model', copy, '--tokens', '1', '--tensor-parallel-size', '3'];
  const { status, stderr } = spawnSync(CPU_RUNNER, args, { encoding: 'utf8', timeout: PATIENCE_MS });
  assert.is(status, BAD_MODEL, stderr);
  assert.match(stderr, /^cpu-runner: [^\n]+\n$/);
});

test('the gateway stays up, reports the fault, and serves once the file is repaired', async () => {
  truncateSync(copy, 50_000_000);
  const gateway = await Gateway.start(copy);
  try {
    const broken = await gateway.healthWhere(({ status }) => status === 'unhealthy', 'the fault to be seen');
    assert.is(broken.model_loaded, false);
    assert.match(broken.runner.reason ?? '', copy);
    const ready = await fetch(`${gateway.url}/ready`);
    assert.is(ready.status, 503);
    assert.match(await ready.text(), copy);
    const refused = await gateway.post('/execute', { job_id: 'a', prompt: 'x' });
    assert.is(refused.status, 503);

    copyFileSync(DEFAULT_MODEL, copy);
    await gateway.ready();
    const answer = await readNativeAnswer(
      await gateway.post('/execute', { job_id: 'a', prompt: 'x', max_tokens: 2 }),
    );
    assert.is(answer.last.event, 'end');
  } finally {
    await gateway.stop();
  }
});

/** Without a sandbox nothing ends a leader that waits for its ranks for ever. */
const RANKS = ['--tensor-parallel-size', '2', '--backend', 'cpu', '--sandbox', 'off'];

for (const [runner, flags] of [
  ['one process', []],
  ['several processes without a sandbox', RANKS],
] as const) {
  test(`a model that only the runner refuses, ${runner}, is reported as well`, async () => {
    overwrite(valuePosition('llama.block_count'), Uint8Array.of(31, 0, 0, 0));
    const gateway = await Gateway.start(copy, flags);
    try {
      const broken = await gateway.healthWhere(
        ({ status }) => status === 'unhealthy',
        'the fault to be seen',
      );
      assert.match(broken.runner.reason ?? '', /blk\.30/);
      assert.is(broken.runner.restarts, 0, 'it is not tried again and again');
    } finally {
      await gateway.stop();
    }
  });
}

test('changing a single weight changes the text', async () => {
  const greedy = (): string => {
    const prompt = ['--tokens', '504,33059,40061', '--max-tokens', '32', '--temperature', '0'];
    return cpuRunner('generate', '--model', copy, ...prompt).stdout;
  };
  const before = greedy();
  assert.is(before, greedy());
  // The file ends with output_norm.weight: 576 floats. One of them is made large.
  const weight = Buffer.alloc(4);
  weight.writeFloatLE(100);
  overwrite(statSync(copy).size - 4, weight);
  const after = greedy();
  assert.is(before.split('\n').length, after.split('\n').length);
  assert.is.not(before, after);
});

test.run();
