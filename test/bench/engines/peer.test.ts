import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { temporaryFolder } from '../../fixtures/temporary-folder.ts';
import { argumentsOf, FLASH_ATTENTION, Peer, peersOf, REPACKING, settingsFrom } from './peer.ts';

const test = suite('bench peers');

const folder = temporaryFolder();

/** Writes a program that prints this text and exits with the status. */
function program(name: string, stdout: string, status = 0): void {
  folder.write(name, `#!/bin/sh\ncat <<'END'\n${stdout}\nEND\nexit ${status}\n`, 0o755);
}

test('folders are named after what has their programs', () => {
  const names = peersOf('/opt/llama.cpp/build/bin:/opt/ik_llama.cpp/bin::/opt/mine').map(({ name }) => name);
  assert.equal(names, ['llama.cpp', 'ik_llama.cpp', 'mine']);
  assert.equal(peersOf(undefined), []);
});

test('a setting is tried for each flag that the program knows', () => {
  const flags = { ...FLASH_ATTENTION, ...REPACKING };
  assert.equal(settingsFrom('-fa,   --flash-attn [on|off|auto]', flags), ['-fa 0', '-fa 1']);
  assert.equal(settingsFrom('  -fa, --flash-attn <0|1>\n  -rtr, --run-time-repack <0|1>', flags), [
    '-fa 0',
    '-fa 0 -rtr',
    '-fa 1',
    '-fa 1 -rtr',
  ]);
  assert.equal(settingsFrom('-no-fa, --no-flash-attn', flags), ['']);
  assert.equal(argumentsOf('-fa 1 -rtr'), ['-fa', '1', '-rtr']);
  assert.equal(argumentsOf(''), []);
});

test('a missing feature of a peer is named', () => {
  mkdirSync(join(folder.path, 'peer/bin'), { recursive: true });
  const peer = new Peer(join(folder.path, 'peer/bin'));
  assert.is(peer.name, 'peer');
  assert.throws(() => peer.program('llama-server'), 'there is no llama-server in its folder');
});

test('a version is read from any program that prints one, whatever its status', async () => {
  const peer = new Peer(folder.path);
  assert.is(await peer.version(), 'of an untold version');
  program('llama-bench', 'error: invalid parameter', 1);
  program('llama-batched-bench', 'version: 0.5.0-dev (build 1, commit 0c1e570)\nbuilt with GNU 12.2.0', 1);
  assert.is(await peer.version(), '0.5.0-dev (build 1, commit 0c1e570)');
});

test('flags of llama-bench also count for the other programs of its folder', async () => {
  program('llama-bench', '  -rtr, --run-time-repack <0|1>');
  program('llama-server', '  -fa, --flash-attn (auto|on|off|0|1)');
  const help = await new Peer(folder.path).help('llama-server');
  assert.is(settingsFrom(help, { ...FLASH_ATTENTION, ...REPACKING }).length, 4);
});

test.run();
