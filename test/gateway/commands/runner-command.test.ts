import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { runnerCommand } from '../../../gateway/commands/runner-command.ts';
import { readConfig } from '../../../gateway/config.ts';
import { ModelSlot } from '../../../gateway/model/model-slot.ts';

const test = suite('runner command');

test('the runner gets what concerns it under the same names, and nothing that was not set', () => {
  const flags = [
    '--max-num-seqs',
    '3',
    '--record',
    'a.frames',
    '--record-max-bytes',
    '4096',
    '--threads',
    '2',
    '--sandbox',
    'strict',
  ];
  const config = readConfig(['--model', 'm.gguf', '--runner', 'bin/runner', '--port', '1', ...flags], {});
  const { file, args } = runnerCommand(config, new ModelSlot('m.gguf'));
  assert.is(file, 'bin/runner');
  assert.equal(
    args.join(' '),
    'serve --model m.gguf --threads 2 --max-num-seqs 3 --sandbox strict --record a.frames --record-max-bytes 4096',
  );
});

test.run();
