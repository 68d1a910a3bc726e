import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { childNamed } from '../fixtures/child-processes.ts';
import { CPU_RUNNER, DEFAULT_MODEL } from '../fixtures/default-model.ts';
import { runnel } from '../fixtures/ran.ts';
import { temporaryFolder } from '../fixtures/temporary-folder.ts';
import { PATIENCE_MS, until, within } from '../fixtures/within.ts';

const test = suite('generate');
const folder = temporaryFolder();

function recordedBytes(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0;
}

interface Answer {
  readonly text: string;
  readonly token_ids: number[];
  readonly finish: string;
}

test('the offline command answers each prompt as the runner by hand does, in the order of the prompts', () => {
  const prompts = [
    'The capital of France is',
    'Once upon a time\nthere was',
    [504, 3575, 282, 4649, 314],
    'Two',
  ];
  const file = folder.write('prompts.json', JSON.stringify(prompts));
  const sampling = ['--temperature', '0.8', '--top-k', '40', '--max-tokens', '12'];
  const flags = ['--model', DEFAULT_MODEL, ...sampling];
  const { status, stdout, stderr } = runnel(
    'generate',
    ...flags,
    '--seed',
    '18446744073709551614',
    '--prompts-file',
    file,
    '--json',
  );
  assert.is(status, 0, stderr);
  const answers = JSON.parse(stdout) as Answer[];
  assert.is(answers.length, prompts.length);
  for (const [index, prompt] of prompts.entries()) {
    const ids =
      typeof prompt === 'string'
        ? JSON.parse(runnel('tokenize', '--model', DEFAULT_MODEL, '--add-special', prompt).stdout)
        : prompt;
    const seed = BigInt.asUintN(64, 18446744073709551614n + BigInt(index));
    const args = [
      'generate',
      ...flags,
      '--tokens',
      ids.join(','),
      '--seed',
      `${seed}`,
      '--stop-ids',
      '2',
      '--json',
    ];
    const byHand = JSON.parse(execFileSync(CPU_RUNNER, args, { encoding: 'utf8' })) as Answer;
    assert.equal(answers[index]?.token_ids, byHand.token_ids, `prompt ${index}`);
    assert.ok(answers[index]?.text);
  }
});

test('a runner that is killed under an offline prompt changes nothing but the time', async () => {
  const args = ['generate', '--model', DEFAULT_MODEL, '--temperature', '0', '--max-tokens', '200', '--json'];
  const whole = runnel(...args, 'Once upon a time').stdout;
  const recording = join(folder.path, 'killed.frames');
  const child = spawn('node', ['gateway/runnel.js', ...args, '--record', recording, 'Once upon a time'], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let printed = '';
  child.stdout.on('data', (chunk: Buffer) => {
    printed += chunk.toString();
  });
  const closed = once(child, 'close');
  // The recording grows with each token.
  await until(PATIENCE_MS, 'some tokens', () => recordedBytes(recording) > 1000);
  process.kill(childNamed(child.pid, 'cpu-runner'), 'SIGKILL');
  const [code] = (await within(PATIENCE_MS, 'the end of the command', closed)) as [number];
  assert.is(code, 0);
  assert.equal(JSON.parse(printed), JSON.parse(whole));
  assert.ok(recordedBytes(`${recording}.previous`) > 1000, 'the first runner had begun');
});

test('an impossible request has its exit status and prints nothing on stdout', () => {
  const model = ['--model', DEFAULT_MODEL];
  const cases: [number, string[], RegExp][] = [
    [64, ['generate', ...model], /either PROMPTs or --prompts-file/],
    [64, ['generate', ...model, '--prompts-file', folder.write('bad.json', '{}'), '--json'], /JSON array/],
    [
      64,
      ['generate', ...model, '--temperature', '3', 'x'],
      /--temperature must be a number between 0 and 2, got 3/,
    ],
    [64, ['generate', ...model, '--stop', '', 'x'], /must not be empty/],
    [64, ['generate', ...model, ''], /prompt 1 is empty for this model: it has no tokens/],
    [65, ['generate', '--model', folder.write('bad.gguf', 'bad'), 'x'], /cannot be used/],
    [66, ['generate', '--model', 'hf:owner/repo/none.gguf', 'x'], /has not been fetched yet/],
    [69, ['generate', ...model, '--runner', '/bin/false', 'x'], /./],
  ];
  for (const [expected, args, message] of cases) {
    const { status, stdout, stderr } = runnel(...args);
    assert.is(status, expected, `${args.join(' ')}: ${stderr}`);
    assert.is(stdout, '');
    assert.match(stderr, message);
  }
});

test.run();
