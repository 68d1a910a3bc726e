import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { ARM64_BUILD, ARM64_NODE, emulatedProgram } from '../fixtures/arm64.ts';
import { TINY_MODEL } from '../fixtures/default-model.ts';
import { Gateway } from '../fixtures/gateway.ts';
import { NotifySocket } from '../fixtures/notify-socket.ts';
import { temporaryFolder } from '../fixtures/temporary-folder.ts';

/** What `make dist-arm64` packs is for ARM64, and answers there. */

const test = suite('packages for ARM64');
const folder = temporaryFolder();
const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const VERSION = (JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { version: string }).version;
const archive = join(folder.path, `runnel-${VERSION}-linux-arm64`);
const lib = join(archive, 'lib/runnel');

/** The architecture in the header of an ELF file. */
function machineOf(path: string): number {
  return readFileSync(path).readUInt16LE(18);
}
const AARCH64 = 183;

test('the archive and the Debian package are of that architecture', () => {
  const env = { ...process.env, BUILD: ARM64_BUILD, DIST: folder.path, ARCHITECTURE: 'arm64' };
  execFileSync(join(ROOT, 'deploy/dist.sh'), { env });
  const deb = join(folder.path, `runnel_${VERSION}_arm64.deb`);
  const field = (name: string) => execFileSync('dpkg-deb', ['-f', deb, name], { encoding: 'utf8' }).trim();
  assert.is(field('Architecture'), 'arm64');
  assert.match(field('Depends'), /^nodejs \(>= 20\), libc6 \(>= [\d.]+\), .*libstdc\+\+6/);
  execFileSync('tar', ['-xzf', `${archive}.tar.gz`, '-C', folder.path]);
  for (const program of ['cpu-runner', 'sd-notify'])
    assert.is(machineOf(join(lib, 'build', program)), AARCH64);
  const prebuilds = join(lib, 'build/gateway/node_modules/classic-level/prebuilds');
  assert.ok(existsSync(join(prebuilds, 'linux-arm64')));
});

test('one chat with gateway and runner for ARM64, in its Node', async () => {
  const node = emulatedProgram(join(folder.path, 'node'), ARM64_NODE);
  // Without the kernel's help a program for ARM64 cannot start another one, so what Node starts is the script.
  const preload = join(folder.path, 'preload.cjs');
  writeFileSync(preload, `process.execPath = ${JSON.stringify(node)};\n`);
  const runner = emulatedProgram(join(folder.path, 'cpu-runner'), join(lib, 'build/cpu-runner'));
  const program = [node, '--require', preload, join(lib, 'gateway/runnel.js')];
  const said = execFileSync(node, ['-p', 'process.arch'], { encoding: 'utf8' });
  assert.is(said, 'arm64\n');
  const settings = ['--port', '0', '--backend', 'cpu', '--runner', runner];
  const gateway = await (await Gateway.startOn(TINY_MODEL, settings, { program })).ready();
  try {
    const messages = [{ role: 'user', content: 'hello' }];
    const body = { model: 'tiny-llama-q8_0', messages, max_tokens: 8, temperature: 0 };
    const answer = await gateway.post('/v1/chat/completions', body);
    assert.is(answer.status, 200);
    const { usage } = (await answer.json()) as { usage: { completion_tokens: number } };
    assert.ok(usage.completion_tokens > 0);
  } finally {
    assert.equal(await gateway.stop(), { code: 0, signal: null });
  }
});

test('sd-notify for ARM64 sends what it reads', async () => {
  mkdirSync(join(folder.path, 'notify'));
  const name = join(folder.path, 'notify/socket');
  const socket = await NotifySocket.open(name);
  const program = emulatedProgram(join(folder.path, 'sd-notify'), join(ARM64_BUILD, 'sd-notify'));
  const env = { PATH: process.env.PATH, NOTIFY_SOCKET: name };
  execFileSync(program, { input: 'READY=1\tSTATUS=ready\nSTOPPING=1\n', env });
  await socket.awaits('STOPPING=1');
  assert.equal(socket.texts, ['READY=1\nSTATUS=ready', 'STOPPING=1']);
  socket.close();
});

test.run();
