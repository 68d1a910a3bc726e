import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { temporaryFolder } from '../../fixtures/temporary-folder.ts';
import { parseRunnerBench, type Runner, runnelAlone, runnelTogether } from './runnel.ts';

const test = suite('bench of cpu-runner');

const folder = temporaryFolder();
const AMOUNTS = { prompt: 512, generate: 128, depth: 100, generateTogether: 32 };

function figures(decode: Readonly<Record<string, number>>): string {
  return JSON.stringify({
    prefill_tok_s: 482.5,
    decode_tok_s: decode,
    device: 'cpu, avx2, 2 threads',
    prompt: 512,
  });
}

/** A runner that prints these figures. */
function runner(decode: Readonly<Record<string, number>>): Runner {
  const script = `#!/bin/sh\ncat <<'END'\n${figures(decode)}\nEND\n`;
  const file = folder.write('cpu-runner', script, 0o755);
  return { name: 'Runnel', file, model: 'a.gguf', threads: 2, flags: ['--isa', 'avx2'] };
}

test('its figures are read', () => {
  const { prefill_tok_s, decode_tok_s, device } = parseRunnerBench(figures({ '1': 129 }));
  assert.equal([prefill_tok_s, decode_tok_s, device], [482.5, { '1': 129 }, 'cpu, avx2, 2 threads']);
  assert.throws(() => parseRunnerBench('{"prefill_tok_s": 1}'));
});

test('a prompt alone and one stream are one run, several streams another', async () => {
  assert.equal(await runnelAlone(runner({ '1': 129 }), AMOUNTS).measure('', 1), {
    prefill: 482.5,
    decode1: 129,
  });
  const together = await runnelTogether(runner({ '8': 250, '32': 335 }), AMOUNTS).measure('', 1);
  assert.equal(together, { decode8: 250, decode32: 335 });
});

test('a speed that is missing is no figure', async () => {
  try {
    await runnelTogether(runner({ '8': 250 }), AMOUNTS).measure('', 1);
    assert.unreachable();
  } catch (error) {
    assert.is((error as Error).message, 'cpu-runner tells no speed of 32 streams.');
  }
});

test.run();
