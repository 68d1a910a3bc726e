import { once } from 'node:events';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { readConfig } from '../../../gateway/config/config.ts';
import { UsageError } from '../../../gateway/errors/exit-code.ts';
import { passedSocket, unixPathOf } from '../../../gateway/systemd/passed-socket.ts';
import { temporaryFolder } from '../../fixtures/temporary-folder.ts';

const test = suite('passed socket');
const folder = temporaryFolder();

const passed = { LISTEN_PID: String(process.pid), LISTEN_FDS: '1' };

function refusal(action: () => unknown): string {
  try {
    action();
  } catch (error) {
    assert.instance(error, UsageError);
    return (error as Error).message;
  }
  return assert.unreachable('it was not refused') as never;
}

test('a socket passed to this process is taken, another process’s is not', () => {
  assert.equal(passedSocket(passed), { fd: 3 });
  assert.is(passedSocket({}), undefined);
  assert.is(passedSocket({ ...passed, LISTEN_PID: '1' }), undefined);
  assert.is(passedSocket({ LISTEN_FDS: '1' }), undefined);
});

test('several are refused by name', () => {
  for (const count of ['2', '0', '', 'one'])
    assert.match(
      refusal(() => passedSocket({ ...passed, LISTEN_FDS: count })),
      /^LISTEN_FDS must be 1, got /,
    );
});

test('an address beside it is refused by where it was given', () => {
  const model = ['--model', 'a.gguf'];
  const file = folder.write('runnel.json', '{"port": 9000}');
  const cases: [string, string[], NodeJS.ProcessEnv][] = [
    ['--port', ['--port', '8080'], {}],
    ['--host', ['--host', '127.0.0.1'], {}],
    ['--uds', ['--uds', '/run/runnel.sock'], {}],
    ['RUNNEL_PORT', [], { RUNNEL_PORT: '8080' }],
    [`"port" in ${file}`, ['--config', file], {}],
  ];
  for (const [name, args, env] of cases) {
    const message = refusal(() => readConfig([...model, ...args], { ...env, ...passed }));
    assert.ok(message.startsWith(`${name} cannot be used, since systemd passes the socket`), message);
    assert.ok(readConfig([...model, ...args], env));
  }
  assert.ok(readConfig(model, passed));
});

test('the path of a UNIX socket is found by its descriptor', async () => {
  const path = join(folder.path, 'a b.sock');
  const server = createServer().listen(path);
  await once(server, 'listening');
  const { fd } = (server as unknown as { _handle: { fd: number } })._handle;
  assert.is(unixPathOf(fd), path);
  server.close();
});

test.run();
