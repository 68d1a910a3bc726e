import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { HELP, PARTS, parseOptions, TYPES } from './options.ts';
import { loadOf } from './parts.ts';

const test = suite('bench options');

test('without any, all parts are measured in few rounds; several engines have more', () => {
  const options = parseOptions([], {});
  assert.equal(options?.only, [...PARTS]);
  assert.equal([options?.rounds, options?.serveRounds], [3, 1]);
  assert.equal(options?.runners, ['build/cpu-runner']);
  const beside = parseOptions([], { PEER_BIN: '/opt/llama.cpp/bin' });
  assert.equal([beside?.rounds, beside?.serveRounds], [5, 5]);
  assert.equal(
    beside?.peers.map(({ name }) => name),
    ['llama.cpp'],
  );
  const builds = parseOptions(['--runner', 'a', '--runner', 'b', '--rounds', '9'], {});
  assert.equal([builds?.runners, builds?.rounds, builds?.serveRounds], [['a', 'b'], 9, 5]);
});

test('flags of the engine follow --', () => {
  const options = parseOptions(['--only', 'alone,start', '--', '--isa', 'avx2'], {});
  assert.equal(options?.only, ['alone', 'start']);
  assert.equal(options?.engineFlags, ['--isa', 'avx2']);
});

test('types of weights are those that synth writes, all of them without any', () => {
  assert.equal(parseOptions([], {})?.types, [...TYPES]);
  assert.equal(parseOptions(['--types', 'q6_k,bf16'], {})?.types, ['q6_k', 'bf16']);
  assert.throws(() => parseOptions(['--types', 'q7_k'], {}), '--types.0: ');
});

test('the synthetic model has a known shape, or there is none', () => {
  assert.is(parseOptions([], {})?.synthetic, '1b');
  assert.is(parseOptions(['--synthetic', 'off'], {})?.synthetic, 'off');
  assert.throws(() => parseOptions(['--synthetic', '70b'], {}), '--synthetic: ');
});

test('lengths of prompts are a range', () => {
  const options = parseOptions(['--client-prompt', '32-32', '--top-k', '0'], {});
  assert.ok(options);
  const { leastPrompt, mostPrompt, topK, clients } = loadOf(options);
  assert.equal([leastPrompt, mostPrompt, topK, clients], [32, 32, 0, 32]);
  assert.throws(() => parseOptions(['--client-prompt', '500-50'], {}), 'must begin with the smaller number');
});

test('unknown options are refused, and the help lists every option', () => {
  assert.throws(() => parseOptions(['--only', 'decode'], {}), '--only.0: ');
  assert.throws(() => parseOptions(['--rounds', '0'], {}), '--rounds: ');
  assert.throws(() => parseOptions(['--repeats', '3'], {}), '--repeats');
  assert.is(parseOptions(['--help'], {}), undefined);
  for (const part of PARTS) assert.match(HELP, part);
});

test.run();
