import { execFileSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { ARM64_ISAS, emulatedRunner } from '../fixtures/arm64.ts';

/** A cpu-runner for ARM64 gives the bits of the one of this machine. */

const test = suite('ARM64');
const native = fileURLToPath(new URL('../../build/cpu-runner', import.meta.url));
const emulated = emulatedRunner();

const GOLDEN = fileURLToPath(new URL('../golden', import.meta.url));
/** Of encoders there is encoders.test.ts. */
const models = [GOLDEN, join(GOLDEN, 'models')].flatMap((path) =>
  readdirSync(path)
    .filter((name) => name.endsWith('.gguf') && !name.includes('bert'))
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

for (const isa of ARM64_ISAS) {
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

test.run();
