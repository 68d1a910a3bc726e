import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { readRecording } from '../../gateway/runner/protocol/recording.ts';
import { CPU_RUNNER, DEFAULT_MODEL } from '../fixtures/default-model.ts';
import { cpuRunner } from '../fixtures/ran.ts';
import { temporaryFolder } from '../fixtures/temporary-folder.ts';
import { within } from '../fixtures/within.ts';

/**
 * Sessions by hand with the default model: commands and events in JSON, a recording, a crash, and its replay.
 */

const TIMEOUT_MS = 60_000;
const LAST_STEP = 15;

const folder = temporaryFolder();
const recording = join(folder.path, 'session.frames');

function startServe(...flags: string[]) {
  const args = ['serve', '--model', DEFAULT_MODEL, '--json-frames', '--record', recording, ...flags];
  return spawn(CPU_RUNNER, args, { stdio: ['pipe', 'pipe', 'ignore'] });
}

function send(runner: ChildProcess, ...commands: object[]): void {
  for (const command of commands) runner.stdin?.write(`${JSON.stringify(command)}\n`);
}

const generate = (request_id: number, token_ids: number[], max_tokens: number) => ({
  generate: {
    request_id,
    token_ids,
    max_tokens,
    sampling: { temperature: 0.8, seed: '18446744073709551615', frequency_penalty: 0.3 },
    top_logprobs: 2,
  },
});

interface Event {
  readonly step?: { readonly step: number };
  readonly failure?: { readonly exit_code: number; readonly message: string };
}

const test = suite('replay');

test('a recorded session with a planted crash replays to the same step with the same bits', async () => {
  const runner = startServe();
  const seen: string[] = [];
  send(runner, generate(1, [1, 2, 3, 4], 500), generate(2, [5, 6], 6));
  const crashed = once(runner, 'exit');
  const follow = async () => {
    for await (const line of createInterface(runner.stdout)) {
      const { step } = JSON.parse(line) as Event;
      if (step === undefined) continue;
      seen.push(line);
      if (step.step === 4) send(runner, { pause: { request_id: 1 } }, generate(3, [7, 8, 9], 300));
      if (step.step === 8) send(runner, { resume: { request_id: 1 } }, { cancel: { request_id: 2 } });
      if (step.step === LAST_STEP) runner.kill('SIGSEGV');
    }
  };
  await within(TIMEOUT_MS, 'The crash', follow());
  assert.is((await within(TIMEOUT_MS, 'The exit', crashed))[1], 'SIGSEGV');

  // The recording contains everything that was seen, and the replay computes the same bits.
  const steps: string[] = [];
  for await (const { name, step } of readRecording(recording)) if (name === 'step') steps.push(step);
  assert.ok(steps.length >= seen.length, `${steps.length} steps recorded, ${seen.length} seen`);
  const replayed = cpuRunner('replay', recording);
  assert.is(replayed.status, 0, replayed.stderr);
  assert.match(replayed.stdout, new RegExp(`^${steps.length} steps, \\d+ tokens, all equal\\.\n`));
  assert.match(replayed.stdout, `The recorded process ended in step ${steps.length + 1}`);
  assert.match(cpuRunner('replay', recording, '--until', '9').stdout, /^9 steps, \d+ tokens, all equal\.\n$/);
});

test('a recording is refused with another model', () => {
  const copy = join(folder.path, 'copy.gguf');
  copyFileSync(DEFAULT_MODEL, copy);
  const { status, stderr } = cpuRunner('replay', recording, '--model', copy);
  assert.is(status, 64);
  assert.match(stderr, /^cpu-runner: The recording's model identity is .*, this one's is .*\n$/);
});

test('json frames: lines may be written before the model is loaded, and a wrong one ends with its name', async () => {
  const runner = startServe();
  send(runner, generate(1, [1, 2, 3], 2), { generate: { request_id: 2, tokens: [1] } });
  const events: Event[] = [];
  const read = async () => {
    for await (const line of createInterface(runner.stdout)) events.push(JSON.parse(line) as Event);
  };
  const exit = once(runner, 'exit');
  await within(TIMEOUT_MS, 'The end', read());
  assert.is((await exit)[0], 76);
  assert.equal(events.at(-1)?.failure, {
    exit_code: 76,
    message: 'Line 2: generate."tokens" is not in the protocol.',
  });
});

test.run();
