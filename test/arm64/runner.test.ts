import { execFileSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { ARM64_BUILD, emulatedProgram } from '../fixtures/arm64.ts';
import { DEFAULT_MODEL } from '../fixtures/default-model.ts';
import { Gateway } from '../fixtures/gateway.ts';
import { killAll, runAll } from '../fixtures/killed-streams.ts';
import { temporaryFolder } from '../fixtures/temporary-folder.ts';
import { variedRequests } from '../fixtures/varied-requests.ts';

/** A cpu-runner for ARM64 gives the bits of the one of this machine, alone and behind the gateway. */

const test = suite('ARM64');
const folder = temporaryFolder();
const native = fileURLToPath(new URL('../../build/cpu-runner', import.meta.url));
const emulated = emulatedProgram(join(folder.path, 'cpu-runner'), join(ARM64_BUILD, 'cpu-runner'));

const GOLDEN = fileURLToPath(new URL('../golden', import.meta.url));
const models = [GOLDEN, join(GOLDEN, 'models')].flatMap((path) =>
  readdirSync(path)
    .filter((name) => name.endsWith('.gguf'))
    .map((name) => join(path, name)),
);
const PROMPT = Array.from({ length: 40 }, (_, index) => 3 + ((index * 7) % 90));

/** Sampled tokens with log-probabilities, which show every bit of the logits. */
function generated(runner: string, model: string, ...options: string[]): string {
  const shown = ['--json', '--logprobs', '5', '--prompt-logprobs', '2'];
  const sampling = ['--temperature', '0.9', '--seed', '7', '--max-tokens', '12', '--min-tokens', '12'];
  const args = ['generate', '--model', model, '--tokens', PROMPT.join(), ...shown, ...sampling, ...options];
  const answer = JSON.parse(execFileSync(runner, args, { encoding: 'utf8' }));
  for (const speed of ['prefill_tok_s', 'decode_tok_s']) delete answer[speed];
  return JSON.stringify(answer);
}

for (const isa of ['portable', 'dotprod', 'i8mm']) {
  test(`${isa}: tokens and log-probabilities of ${models.length} models are those of x86-64`, () => {
    for (const model of models) {
      const options = ['--threads', '2'];
      const expected = generated(native, model, ...options);
      assert.is(generated(emulated, model, '--isa', isa, ...options), expected, basename(model));
    }
  });
}

test('activations in single precision, and caches of other types, too', () => {
  const model = join(GOLDEN, 'models/qwen3-q8_0.gguf');
  for (const options of [
    ['--activations', 'f32'],
    ['--kv-cache-type', 'f32'],
    ['--kv-cache-type', 'q8_0'],
  ])
    assert.is(generated(emulated, model, ...options), generated(native, model, ...options), options.join());
});

test('behind the gateway it answers the same, through a kill too, and says that it is not confined', async () => {
  const requests = variedRequests(basename(DEFAULT_MODEL, '.gguf'), 6);
  const one = await (await Gateway.start(DEFAULT_MODEL, ['--backend', 'cpu'])).ready();
  let numBytes = 0;
  const expected = await runAll(one, requests, -1, (count) => {
    numBytes += count;
  });
  await one.stop();

  const patience = ['--wedge-timeout-sec', '600'];
  const settings = ['--backend', 'cpu', '--runner', emulated, ...patience];
  const gateway = await (await Gateway.start(DEFAULT_MODEL, settings)).ready();
  try {
    // The emulator has neither Landlock nor seccomp.
    assert.match((await gateway.health()).runner.sandbox ?? '', /^none \(.*landlock.*seccomp/);
    await killAll(gateway, requests, expected, numBytes, 1);
  } finally {
    await gateway.stop();
  }
});

test.run();
