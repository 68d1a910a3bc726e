import { readdirSync } from 'node:fs';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { ARM64_ISAS, emulatedRunner } from '../fixtures/arm64.ts';
import { Gateway } from '../fixtures/gateway.ts';

/** Encoders on a cpu-runner for ARM64. cpu-runner's commands refuse them, so the gateway is asked. */

const test = suite('ARM64, encoders');
const emulated = emulatedRunner();
const GOLDEN = fileURLToPath(new URL('../golden/models', import.meta.url));
const encoders = readdirSync(GOLDEN).filter((name) => name.includes('bert') && name.endsWith('.gguf'));
const PROMPT = Array.from({ length: 40 }, (_, index) => 3 + ((index * 7) % 90));

/** What an encoder makes of a prompt: its vector, or with a classification head the score of a pair. */
async function encoded(model: string, ...options: string[]): Promise<string> {
  const gateway = await (await Gateway.start(join(GOLDEN, model), ['--backend', 'cpu', ...options])).ready();
  try {
    const name = basename(model, '.gguf');
    const response = name.includes('rank')
      ? await gateway.post('/v1/score', { model: name, text_1: 'Where is it?', text_2: 'It is there.' })
      : await gateway.post('/v1/embeddings', { model: name, input: PROMPT });
    const { data } = JSON.parse(await response.text()) as { data?: unknown };
    assert.is(response.status, 200, name);
    return JSON.stringify(data);
  } finally {
    await gateway.stop();
  }
}

test(`vectors and scores of ${encoders.length} encoders are those of x86-64`, async () => {
  for (const model of encoders) {
    const expected = await encoded(model);
    for (const isa of ARM64_ISAS)
      assert.is(await encoded(model, '--runner', emulated, '--isa', isa), expected, `${model}, ${isa}`);
  }
});

test.run();
