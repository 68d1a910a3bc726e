import { statSync } from 'node:fs';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { runnerCommand } from '../../../gateway/cli/runner-command.ts';
import { readConfig } from '../../../gateway/config/config.ts';
import { ModelSlot } from '../../../gateway/models/model-slot.ts';
import { TINY_MODEL } from '../../fixtures/default-model.ts';

const test = suite('runner command');

test('the runner gets what concerns it under the same names, and nothing that was not set', () => {
  const flags = [
    '--max-num-seqs',
    '3',
    '--record',
    'a.frames',
    '--record-max-bytes',
    '65536',
    '--threads',
    '2',
    '--sandbox',
    'strict',
  ];
  const config = readConfig(['--model', 'm.gguf', '--runner', 'bin/runner', '--port', '1', ...flags], {});
  const { file, args } = runnerCommand('cpu', config, new ModelSlot('m.gguf'));
  assert.is(file, 'bin/runner');
  assert.equal(
    args.join(' '),
    'serve --model m.gguf --threads 2 --max-num-seqs 3 --sandbox strict --record a.frames --record-max-bytes 65536',
  );
});

test('the runner gets the name of the file that was read', async () => {
  const slot = new ModelSlot(TINY_MODEL);
  await slot.refresh();
  const { size, mtimeNs, ino, dev } = statSync(TINY_MODEL, { bigint: true });
  const { args } = runnerCommand('cpu', readConfig(['--model', TINY_MODEL], {}), slot);
  assert.equal(args.slice(0, 7), [
    'serve',
    '--model',
    TINY_MODEL,
    '--architecture',
    'llama',
    '--expect-file',
    `${size}-${mtimeNs}-${ino}-${dev}`,
  ]);
  slot.close();
});

test('cuda-runner gets its device and no threads, and cpu-runner no device', () => {
  const flags = [
    '--gpu-device',
    '1',
    '--enforce-eager',
    'on',
    '--cuda-runner',
    'bin/cuda',
    '--runner',
    'bin/cpu',
  ];
  const auto = readConfig(['--model', 'm.gguf', '--threads', '2', '--block-size', '64', ...flags], {});
  const slot = new ModelSlot('m.gguf');
  assert.equal(runnerCommand('cuda', auto, slot), {
    file: 'bin/cuda',
    args: ['serve', '--model', 'm.gguf', '--gpu-device', '1', '--enforce-eager', '--block-size', '64'],
  });
  assert.equal(runnerCommand('cpu', auto, slot), {
    file: 'bin/cpu',
    args: ['serve', '--model', 'm.gguf', '--threads', '2', '--block-size', '64'],
  });
  const share = ['--gpu-memory-utilization', '0.5', '--tensor-parallel-size', '1', '--threads', '2'];
  const shared = readConfig(['--model', 'm.gguf', ...share], {});
  assert.equal(runnerCommand('cuda', shared, slot).args.slice(3), ['--gpu-memory-utilization', '0.5']);
  assert.equal(runnerCommand('cpu', shared, slot).args.slice(3), ['--threads', '2']);
  const blocks = readConfig(['--model', 'm.gguf', '--num-kvcache-blocks', '7'], {});
  assert.equal(runnerCommand('cuda', blocks, slot).args.slice(3), ['--num-kvcache-blocks', '7']);
  const budget = readConfig(['--model', 'm.gguf', '--memory-bytes', '9000', '--threads', '2'], {});
  assert.equal(runnerCommand('cuda', budget, slot).args, ['serve', '--model', 'm.gguf']);
  assert.ok(runnerCommand('cpu', budget, slot).args.join(' ').endsWith('--memory-bytes 9000'));
  const arithmetic = readConfig(
    ['--model', 'm.gguf', '--threads', '2', '--isa', 'avx2', '--activations', 'i8'],
    {},
  );
  assert.equal(runnerCommand('cuda', arithmetic, slot).args, ['serve', '--model', 'm.gguf']);
  assert.ok(runnerCommand('cpu', arithmetic, slot).args.join(' ').endsWith('--isa avx2 --activations i8'));
  const graphs = readConfig(['--model', 'm.gguf', '--enforce-eager', 'off'], {});
  assert.equal(runnerCommand('cuda', graphs, slot).args, ['serve', '--model', 'm.gguf']);
});

test.run();
