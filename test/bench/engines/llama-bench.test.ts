import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { parseLlamaBench } from './llama-bench.ts';

const test = suite('llama-bench');

/** Output of llama.cpp 0.5.0 with -o json, without the fields that are not read. */
const LLAMA_CPP = `[
  {
    "build_commit": "0c1e570",
    "model_type": "llama 256M Q4_1",
    "flash_attn": 1,
    "n_prompt": 32,
    "n_gen": 0,
    "n_depth": 0,
    "avg_ns": 3240308000,
    "avg_ts": 9.875604,
    "samples_ts": [ 9.8756 ]
  },
  {
    "build_commit": "0c1e570",
    "model_type": "llama 256M Q4_1",
    "flash_attn": 1,
    "n_prompt": 0,
    "n_gen": 4,
    "n_depth": 0,
    "avg_ns": 627072346,
    "avg_ts": 6.378849,
    "samples_ts": [ 6.37885 ]
  }
]
`;

/** Output of ik_llama.cpp. */
const IK_LLAMA_CPP = `[
  {
    "build_commit": "of the sdist",
    "repack": true,
    "mqkv": false,
    "n_prompt": 32,
    "n_gen": 0,
    "avg_ts": 18.226114,
    "test": "pp32",
    "samples_ts": [ 18.2261 ]
  },
  {
    "build_commit": "of the sdist",
    "repack": true,
    "n_prompt": 0,
    "n_gen": 4,
    "avg_ts": 11.5,
    "test": "tg4",
    "samples_ts": [ 11.5 ]
  }
]
`;

test('prompt and stream figures are read separately, of each fork', () => {
  assert.equal(parseLlamaBench(LLAMA_CPP), { prefill: 9.875604, decode1: 6.378849 });
  assert.equal(parseLlamaBench(IK_LLAMA_CPP), { prefill: 18.226114, decode1: 11.5 });
});

test('a line of warning before the tests is passed over', () => {
  assert.equal(parseLlamaBench(`warning: asserts enabled\n${LLAMA_CPP}`).prefill, 9.875604);
});

test('a missing test is reported', () => {
  const [first = ''] = LLAMA_CPP.split(',\n  {');
  assert.throws(() => parseLlamaBench(`${first}\n]`), 'llama-bench left out a test that it was asked for');
  assert.throws(() => parseLlamaBench('error: unable to load model'));
});

test.run();
