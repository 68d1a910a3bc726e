import { readFileSync } from 'node:fs';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { parseLlamaBench } from './llama-bench.ts';

const test = suite('llama-bench');

/** Output of llama.cpp 0.5.0 with -o json, without the fields that are not read. */
const LLAMA_CPP = readFileSync(new URL('llama-bench.txt', import.meta.url), 'utf8');

/** Output of ik_llama.cpp. */
const IK_LLAMA_CPP = readFileSync(new URL('ik-llama-bench.txt', import.meta.url), 'utf8');

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
