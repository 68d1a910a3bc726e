import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { temporaryFolder } from '../fixtures/temporary-folder.ts';

/** What `make bench-cuda` computes from the figures of two runners. */

const test = suite('beside cpu');

const SCRIPT = fileURLToPath(new URL('beside_cpu.py', import.meta.url));
const folder = temporaryFolder();

function figures(
  device: string,
  prefill_tok_s: number,
  decode_tok_s: Readonly<Record<string, number>>,
  memory: object = {},
): string {
  const subject = { prompt: 512, device, machine: 'a processor' };
  return JSON.stringify({ prefill_tok_s, decode_tok_s, ...subject, ...memory });
}

/** Writes a program that prints this text and exits with the status. */
function runner(name: string, stdout: string, status = 0): string {
  return folder.write(name, `#!/bin/sh\ncat <<'END'\n${stdout}\nEND\nexit ${status}\n`, 0o755);
}

test('each batch has its ratio, and the first token its share', () => {
  const memory = { weights_bytes: 800_000_000, device_bytes_beside_kv_cache: 1_234_500_000 };
  const cuda = runner('cuda', figures('cuda, a GPU', 10_240, { '1': 150, '8': 1000 }, memory));
  const cpu = runner('cpu', figures('cpu, 2 threads', 512, { '1': 10, '8': 100 }));
  const { status, stdout, stderr } = spawnSync('python3', [SCRIPT, cuda, cpu, 'one.gguf'], {
    encoding: 'utf8',
  });
  assert.is(status, 0, stderr);
  assert.is(
    stdout,
    `one.gguf: cuda, a GPU, beside cpu, 2 threads of a processor
decode, batch 1: 150.0 and 10.0 tokens a second, 15.0 times; wanted 15: reached
decode, batch 8: 1000.0 and 100.0 tokens a second, 10.0 times; wanted 15: missed
first token after a prompt of 512: 50.0 and 1000.0 ms, 5.0 per cent; wanted 10: reached
memory of the device beside the KV cache: 1234.5 MB, of which 800.0 are weights
`,
  );
  const wanted = 'bench --model one.gguf --prompt 512 --generate 128 --batch 1,8,32 --json';
  assert.equal(stderr.trimEnd().split('\n'), [`+ ${cuda} ${wanted}`, `+ ${cpu} ${wanted}`]);
});

test('a runner that fails ends it with its status, and one that is not there by name', () => {
  const broken = runner('broken', 'no device', 69);
  const run = (path: string) => spawnSync('python3', [SCRIPT, path, path, 'one.gguf'], { encoding: 'utf8' });
  assert.is(run(broken).status, 69);
  assert.match(run('/nowhere/cuda-runner').stderr, '/nowhere/cuda-runner does not start: ');
});

test.run();
