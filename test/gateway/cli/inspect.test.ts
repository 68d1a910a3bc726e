import { readFileSync } from 'node:fs';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { inspect as command, type Inspection } from '../../../gateway/cli/inspect.ts';
import { DEFAULT_MODEL, TINY_MODEL } from '../../fixtures/default-model.ts';
import { runCommand } from '../../fixtures/run-command.ts';
import { plainLayers, script } from '../../fixtures/stand-in-runners.ts';
import { type Directory, temporaryDirectory } from '../../fixtures/supervised.ts';

const test = suite('inspect');

const answer = {
  num_parameters: 1_500_000,
  rope_theta: 10000,
  layers: plainLayers,
  file_bytes: 2_000_000,
  tensors: { Q8_0: { tensors: 3, bytes: 1_900_000 } },
  device: 'stand-in',
  max_model_len: 512,
  num_kvcache_blocks: 64,
  process_bytes: 500_000,
  weights_bytes: 1_900_000,
  kv_cache_bytes: 3_000_000,
  rows_bytes: 300_000,
  attention_bytes: 200_000,
  logits_bytes: 100_000,
  requests_bytes: 4_000_000,
  memory_bytes: 10_000_000,
  available_bytes: 11_000_000,
  obstacle: null,
};

/** A runner that answers `inspect` with this output and stores its arguments. */
function runner(directory: Directory, output: string, status = 0): string {
  return script(directory, 'cpu-runner', [
    'if [ "$1" = --version ]; then echo 0.1.0; exit; fi',
    `echo "$@" >${directory.path('arguments')}`,
    `echo '${output}' ${status === 0 ? '' : '>&2'}`,
    `exit ${status}`,
  ]);
}

function inspect(directory: Directory, output: string, status: number, ...args: string[]) {
  const file = runner(directory, output, status);
  return runCommand(command.run, TINY_MODEL, '--backend', 'cpu', '--runner', file, ...args);
}

test('inspect prints what the file and the runner report', async () => {
  const directory = temporaryDirectory();
  const output = JSON.stringify(answer);
  const more = [
    '--context=512',
    '--batch=4',
    '--threads=3',
    '--numa=2',
    '--kv-cache-type=q8_0',
    '--tensor-parallel-size=2',
  ];
  const { exitCode, stdout } = await inspect(directory, output, 0, ...more);
  assert.is(exitCode, 0);
  assert.equal(stdout.trimEnd().split('\n').slice(1), [
    'architecture  llama, 1.5 million parameters',
    'tensors       3 of Q8_0, 1.9 MB',
    'context       512 tokens',
    'positions     rotary, theta 10000',
    'norms         root mean square',
    'tokenizer     gguf-bpe, pre-tokenizer smollm, 272 tokens',
    'chat template generation prompt',
    '- process     0.5 MB',
    '- weights     1.9 MB',
    '- KV cache    3.0 MB for 4 requests of 512 tokens',
    '- a step      0.6 MB: rows 0.3 MB, attention 0.2 MB, logits 0.1 MB',
    '- requests    4.0 MB',
    'memory        10.0 MB; fits into the 11.5 MB that it may use',
    'runs here     yes, by cpu-runner on stand-in',
  ]);
  const args = readFileSync(directory.path('arguments'), 'utf8');
  assert.match(args, `inspect --json --model ${TINY_MODEL} --max-num-seqs 4`);
  assert.match(args, '--max-model-len 512');
  assert.match(args, '--threads 3 --numa 2 --kv-cache-type q8_0 --tensor-parallel-size 2');
  const large = JSON.stringify({ ...answer, available_bytes: 9_000_000, obstacle: 'It does not fit.' });
  const lines = (await inspect(directory, large, 0)).stdout.split('\n');
  assert.ok(lines.includes('memory        10.0 MB; does not fit into the 9.5 MB that it may use'));
});

test('windows, scaled positions, experts and norms are printed', async () => {
  const directory = temporaryDirectory();
  const told = async (layers: object): Promise<string[]> => {
    const output = JSON.stringify({ ...answer, layers: { ...answer.layers, ...layers } });
    const { stdout } = await inspect(directory, output, 0);
    return stdout.split('\n').filter((line) => /^(positions|window|norms|experts)/.test(line));
  };
  assert.equal(await told({ positions: 'learned', norm: 'layer' }), [
    'positions     learned',
    'norms         layer norm',
  ]);
  const gemma = {
    has_head_norms: true,
    has_output_norms: true,
    rope_scaling: { type: 'linear', factor: 8 },
    sliding_window: { positions: 1024, global_every: 6, rope_theta: 1000 },
  };
  assert.equal(await told(gemma), [
    'positions     rotary, theta 10000, scaled by linear 8',
    'window        1024 tokens in all layers except every 6th, theta 1000 there',
    'norms         root mean square, also of queries and keys, also of outputs',
  ]);
  const longrope = { type: 'longrope', original_context_length: 4096, magnitude: 1.19 };
  const moe = {
    rope_scaling: longrope,
    sliding_window: { positions: 4096 },
    experts: { count: 128, used: 8, ffn_size: 768 },
  };
  assert.equal(await told(moe), [
    'positions     rotary, theta 10000, scaled by longrope from 4096 tokens on',
    'window        4096 tokens in every layer',
    'norms         root mean square',
    'experts       128 of width 768, 8 for a token',
  ]);
  assert.match((await told({ rope_scaling: { type: 'llama3' } }))[0] ?? '', 'scaled by llama3');
  const yarn = { type: 'yarn', factor: 4, original_context_length: 32768, magnitude: 1.14 };
  assert.match((await told({ rope_scaling: yarn }))[0] ?? '', 'scaled by yarn from 32768 tokens on');
  const { stdout } = await inspect(directory, JSON.stringify(answer), 0, '--json');
  assert.equal((JSON.parse(stdout) as Inspection).layers, answer.layers);
});

test('a model that cannot be served exits with 69, the reason and its details', async () => {
  const directory = temporaryDirectory();
  const told = { ...answer, obstacle: 'The model needs 5 bytes of memory; 4 are available.' };
  for (const [output, status, reason] of [
    [JSON.stringify(told), 0, told.obstacle],
    ['cpu-runner: The device is gone.', 69, 'cpu-runner: The device is gone.'],
    ['no JSON', 0, 'gave no valid answer'],
    ['{"obstacle": 5}', 0, 'gave no valid answer'],
  ] as const) {
    const { exitCode, stdout } = await inspect(directory, output, status, '--json');
    assert.is(exitCode, 69, output);
    const inspection = JSON.parse(stdout) as Inspection;
    assert.match(inspection.obstacle ?? '', reason);
    assert.equal([inspection.architecture, inspection.context_length], ['llama', 512]);
  }
  const absent = directory.path('absent');
  const { exitCode, stdout } = await runCommand(
    command.run,
    DEFAULT_MODEL,
    '--backend=cpu',
    '--runner',
    absent,
  );
  assert.is(exitCode, 69);
  assert.match(stdout, /runs here {5}no: .*absent does not exist; "make binaries" builds it/);
  assert.match(stdout, 'chat template system, generation prompt');
});

test('impossible arguments are refused', async () => {
  const cases: [string[], number, RegExp][] = [
    [[], 64, /inspect takes one MODEL/],
    [[TINY_MODEL, TINY_MODEL], 64, /inspect takes one MODEL/],
    [[TINY_MODEL, '--batch', '0'], 64, /--batch must be a whole number between 1 and 1024, got 0/],
    [[TINY_MODEL, '--context', 'x'], 64, /--context must be a whole number between 2 and 1048576, got "x"/],
    [[TINY_MODEL, '--context', '513'], 64, /--context is 513, but .* has a context of 512 tokens/],
    [['/nonexistent.gguf'], 66, /does not exist/],
  ];
  for (const [args, status, sentence] of cases) {
    const { exitCode, stdout, stderr } = await runCommand(command.run, ...args);
    assert.equal([exitCode, stdout], [status, ''], args.join(' '));
    assert.match(stderr, sentence);
  }
});

test.run();
