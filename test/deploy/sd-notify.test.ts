import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { SD_NOTIFY } from '../../gateway/systemd/notify-pipe.ts';
import { NotifySocket } from '../fixtures/notify-socket.ts';
import { temporaryFolder } from '../fixtures/temporary-folder.ts';
import { PATIENCE_MS, until, within } from '../fixtures/within.ts';

const test = suite('sd-notify');
const folder = temporaryFolder();

function run(name: string | undefined, input: string): { status: number | null; stderr: string } {
  const env = name === undefined ? {} : { NOTIFY_SOCKET: name };
  return spawnSync(SD_NOTIFY, { input, env, encoding: 'utf8' });
}

test('each line is one datagram, a tab in it a new line; paths and abstract names', async () => {
  for (const name of [join(folder.path, 'notify'), `@runnel-test-${process.pid}`]) {
    const socket = await NotifySocket.open(name);
    const { status, stderr } = run(name, 'READY=1\tSTATUS=ready, é\n\nWATCHDOG=1\nnot ended');
    assert.is(status, 0, stderr);
    await socket.awaits('WATCHDOG=1');
    assert.equal(socket.texts, ['READY=1\nSTATUS=ready, é', 'WATCHDOG=1']);
    socket.close();
  }
});

test('an impossible socket is refused with its value', () => {
  for (const name of [undefined, '', '/', 'relative', 'vsock:2:1234', `/${'a'.repeat(107)}`]) {
    const { status, stderr } = run(name, '');
    assert.is(status, 64, name);
    assert.match(
      stderr,
      `NOTIFY_SOCKET must be a path of at most 107 bytes, or @ and a name, got ${name ?? 'nothing'}`,
    );
  }
});

test('a socket without a listener is reported once, and later lines are still sent', async () => {
  const name = join(folder.path, 'late');
  const child = spawn(SD_NOTIFY, { stdio: ['pipe', 'ignore', 'pipe'], env: { NOTIFY_SOCKET: name } });
  let said = '';
  child.stderr.on('data', (chunk: Buffer) => {
    said += chunk.toString();
  });
  child.stdin.write('A=1\nA=2\n');
  await until(PATIENCE_MS, 'The complaint', () => said !== '');
  const socket = await NotifySocket.open(name);
  child.stdin.end('B=1\n');
  await socket.awaits('B=1');
  assert.is(said, `sd-notify: cannot send to NOTIFY_SOCKET=${name}: No such file or directory\n`);
  socket.close();
});

test('it ends with its stdin, by no polite signal, and by a line beyond the limit', async () => {
  const child = spawn(SD_NOTIFY, { stdio: ['pipe', 'ignore', 'pipe'], env: { NOTIFY_SOCKET: '/nobody' } });
  const exited = once(child, 'exit');
  // Its first complaint says that it has come as far as to read.
  child.stdin.write('A=1\n');
  await once(child.stderr, 'data');
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) child.kill(signal);
  child.stdin.end();
  assert.equal(await within(PATIENCE_MS, 'Its end', exited), [0, null]);

  assert.is(run('/nobody', `${'a'.repeat(4096)}\n`).status, 0);
  const { status, stderr } = run('/nobody', `${'a'.repeat(4097)}\n`);
  assert.is(status, 76);
  assert.match(stderr, 'a line has more than 4096 bytes');
});

test.run();
