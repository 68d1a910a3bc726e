import { execFileSync } from 'node:child_process';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { HELP_COLUMNS } from '../../gateway/config/help.ts';
import { CPU_RUNNER, CUDA_RUNNER_EMULATED } from '../fixtures/default-model.ts';

const test = suite('help of the runners');

const helpOf = (runner: string, ...command: string[]): string =>
  execFileSync(runner, [...command, '--help'], { encoding: 'utf8' });

test('each command has its flags in groups, with names of values, in lines of at most 100 columns', () => {
  for (const runner of [CPU_RUNNER, CUDA_RUNNER_EMULATED]) {
    const [, list = ''] = helpOf(runner).split('Subcommands:\n');
    const commands = [...list.matchAll(/^ {2}(\w+)/gm)].map(([, name = '']) => name);
    assert.ok(commands.length >= 8, list);
    for (const command of commands) {
      const help = helpOf(runner, command);
      for (const line of help.split('\n')) assert.ok(line.length <= HELP_COLUMNS, `${command}: ${line}`);
      assert.match(help, /^General:\n {2}-h,--help {2,}Print this help$/m);
      // What CLI11 would write by itself: its group, its names of types and its limits.
      assert.not.match(help, /^Options:|UINT|FLOAT|TEXT\b| in \[|Excludes|Needs/m, command);
    }
  }
});

test('a flag says its default and whether it is required', () => {
  const help = helpOf(CPU_RUNNER, 'checkpoint').replaceAll(/\s+/g, ' ');
  assert.match(help, '--model PATH GGUF file, or folder with config.json and safetensors (required)');
  assert.match(help, /--kv-cache-type TYPE Type of the keys and values: .*? \(default: f32\)/);
  assert.match(helpOf(CPU_RUNNER, 'generate'), /--kv-cache-type TYPE(.|\n)*?\(default: f16\)/);
});

test.run();
