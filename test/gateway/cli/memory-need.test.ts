import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { memoryNeedOf } from '../../../gateway/cli/memory-need.ts';
import type { Config } from '../../../gateway/config/config.ts';
import { script } from '../../fixtures/stand-in-runners.ts';
import { temporaryDirectory } from '../../fixtures/supervised.ts';

/** What a model needs beside others, by what its runner reports. */

const test = suite('memory need');

const told = {
  ...{ num_parameters: 1, rope_theta: 1, file_bytes: 1, tensors: {}, obstacle: null },
  layers: {
    ...{ norm: 'rms', has_head_norms: false, has_output_norms: false, positions: 'rotary' },
    ...{ rope_scaling: null, sliding_window: null, experts: null },
  },
  ...{ num_kvcache_blocks: 64, weights_bytes: 1000, kv_cache_bytes: 402, memory_bytes: 2000 },
  available_bytes: 9000,
};

/** Of a runner that tells this. */
async function needOf(changes: object) {
  const directory = temporaryDirectory();
  const runner = script(directory, 'cpu-runner', [`echo '${JSON.stringify(told)}'`]);
  const config = { backend: 'cpu', runner, runners: 1, ...changes } as unknown as Config;
  const need = await memoryNeedOf('model.gguf', config);
  assert.ok(typeof need !== 'string', String(need));
  return need;
}

test('several runners need their own part each, and the weights once', async () => {
  assert.is((await needOf({})).bytes, 2000);
  assert.is((await needOf({ runners: 3 })).bytes, 1000 + 3 * 1000);
});

test('with a KV cache on the disk a model needs a quarter of one cache more, for what is read', async () => {
  const disk = { 'kv-disk': '/kv' };
  assert.equal(await needOf(disk), {
    ...{ kind: 'cpu', bytes: 2100, availableBytes: 9000 },
    cache: { kind: 'cpu', numBlocks: 64 },
  });
  assert.is((await needOf({ ...disk, runners: 3 })).bytes, 4100);
});

test.run();
