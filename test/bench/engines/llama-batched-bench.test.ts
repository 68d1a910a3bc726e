import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { parseBatchedBench } from './llama-batched-bench.ts';

const test = suite('llama-batched-bench');

/** Output of llama.cpp 0.5.0 and of ik_llama.cpp. */
const TABLE = `
llama_batched_bench: n_kv_max = 8192, n_batch = 2048, n_ubatch = 512, flash_attn = 0, is_pp_shared = 0, is_tg_separate = 0, n_gpu_layers = -1, n_threads = 2, n_threads_batch = 2

|    PP |     TG |    B |   N_KV |   T_PP s | S_PP t/s |   T_TG s | S_TG t/s |      T s |    S t/s |
|-------|--------|------|--------|----------|----------|----------|----------|----------|----------|
|   128 |     32 |    8 |   1280 |    1.571 |   651.94 |    0.921 |   278.01 |    2.492 |   513.65 |
|   128 |     32 |   32 |   5120 |    6.400 |   640.00 |    3.180 |   322.02 |    9.580 |   534.45 |

`;

test('the speed of decoding is read by the number of streams', () => {
  assert.equal(parseBatchedBench(TABLE), { decode8: 278.01, decode32: 322.02 });
});

test('log lines of a fork around the table are skipped', () => {
  const logged = `print_info: EOS token             = 2 '<|im_end|>'\n${TABLE}\nllama_print_timings: total time = 9 ms`;
  assert.equal(parseBatchedBench(logged), { decode8: 278.01, decode32: 322.02 });
});

test('a table that ends too early says which row is missing', () => {
  const early = TABLE.split('\n').slice(0, 6).join('\n');
  assert.throws(() => parseBatchedBench(early), 'llama-batched-bench printed no speed of 32 streams');
  assert.throws(() => parseBatchedBench('error: failed to create the llama_context'), 'of 8 streams');
});

test.run();
