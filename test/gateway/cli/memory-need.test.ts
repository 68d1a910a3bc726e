/** What a runner is asked about the memory of a model, and what its answer comes to for all runners. */
import { readFileSync } from 'node:fs';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { memoryNeedOf } from '../../../gateway/cli/memory-need.ts';
import { deviceReport, plainLayers, script } from '../../fixtures/stand-in-runners.ts';
import { temporaryDirectory } from '../../fixtures/supervised.ts';

const test = suite('memory need');

const file = {
  num_parameters: 1,
  rope_theta: 10000,
  layers: plainLayers,
  file_bytes: 2,
  tensors: {},
  obstacle: null,
};
const plan = {
  memory_bytes: 900,
  weights_bytes: 500,
  available_bytes: 2000,
  num_kvcache_blocks: 8,
  kv_cache_bytes: 402,
};

/** The need of a model with these settings, and the command line of the runner that was asked for it. */
async function needOf(settings: object) {
  const directory = temporaryDirectory();
  const runner = script(directory, 'runner', [
    `if [ "$1" = devices ]; then echo '${JSON.stringify(deviceReport())}'; exit; fi`,
    `echo "$@" >${directory.path('arguments')}`,
    `echo '${JSON.stringify({ ...file, ...plan })}'`,
  ]);
  const config = { runner, 'cuda-runner': runner, runners: 1, ...settings };
  const need = await memoryNeedOf('model.gguf', config as Parameters<typeof memoryNeedOf>[1]);
  return { need, asked: readFileSync(directory.path('arguments'), 'utf8') };
}

test('the ranks that compute a model together are planned for, on GPUs and as processes', async () => {
  for (const backend of ['cuda', 'cpu']) {
    const { need, asked } = await needOf({ backend, 'tensor-parallel-size': 2 });
    assert.match(asked, '--tensor-parallel-size 2');
    const cache = { kind: backend, numBlocks: 8 };
    assert.equal(need, { kind: backend, bytes: 900, availableBytes: 2000, cache });
  }
});

test('runners share their weights, unless each of them is several processes', async () => {
  const cache = { kind: 'cpu', numBlocks: 8 };
  const shared = await needOf({ backend: 'cpu', runners: 2 });
  assert.match(shared.asked, '--runners 2 --share-weights');
  assert.equal(shared.need, { kind: 'cpu', bytes: 1300, availableBytes: 3500, cache });
  const ranks = await needOf({ backend: 'cpu', runners: 2, 'tensor-parallel-size': 2 });
  assert.not.match(ranks.asked, '--share-weights');
  assert.equal(ranks.need, { kind: 'cpu', bytes: 1800, availableBytes: 4000, cache });
});

test('with a KV cache on the disk a model needs a quarter of one cache more, for what is read', async () => {
  const cache = { kind: 'cpu', numBlocks: 8 };
  const one = await needOf({ backend: 'cpu', 'kv-disk': '/kv' });
  assert.equal(one.need, { kind: 'cpu', bytes: 1000, availableBytes: 2000, cache });
  const three = await needOf({ backend: 'cpu', 'kv-disk': '/kv', runners: 3 });
  assert.equal(three.need, {
    kind: 'cpu',
    bytes: 500 + 3 * 400 + 100,
    availableBytes: 500 + 3 * 1500,
    cache,
  });
});

test.run();
