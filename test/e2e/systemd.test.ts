import { execFileSync } from 'node:child_process';
import { readFileSync, readlinkSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as elapsed } from 'node:timers/promises';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { childNamed } from '../fixtures/child-processes.ts';
import { DEFAULT_MODEL } from '../fixtures/default-model.ts';
import { writeFakeModel } from '../fixtures/fake-model-file.ts';
import { Gateway, stateOf } from '../fixtures/gateway.ts';
import { readNativeAnswer } from '../fixtures/native-stream.ts';
import { NotifySocket } from '../fixtures/notify-socket.ts';
import { fakeRunner } from '../fixtures/stand-in-runners.ts';
import { temporaryFolder } from '../fixtures/temporary-folder.ts';
import { unitValues } from '../fixtures/unit-settings.ts';
import { PATIENCE_MS, until } from '../fixtures/within.ts';

interface World {
  socket: NotifySocket;
  gateway: Gateway;
}

const test = suite<World>('systemd');

const folder = temporaryFolder();
const WATCHDOG_MS = 600;
let numSockets = 0;

test.before.each(async (context) => {
  context.socket = await NotifySocket.open(join(folder.path, `notify-${numSockets++}`));
});
// One or both are undefined if the test has failed before they were there.
test.after.each(async ({ gateway, socket }) => {
  gateway?.process.kill('SIGCONT');
  await gateway?.stop();
  socket?.close();
});

async function start(context: World, model = DEFAULT_MODEL, args: readonly string[] = []): Promise<World> {
  context.gateway = await Gateway.startOn(model, ['--port', '0', ...args], {
    env: { NOTIFY_SOCKET: context.socket.name, WATCHDOG_USEC: String(WATCHDOG_MS * 1000) },
  });
  return context;
}

/** Like `start`, with a runner that computes nothing before it is let go, so that streams last as long as the test wants. */
async function startHeld(context: World): Promise<World & { letGo: () => void }> {
  const model = writeFakeModel(folder, `model-${numSockets}`);
  const hold = folder.write(`hold-${numSockets}`, '');
  const runner = fakeRunner(folder, '--model', `${model}.identity`, '--hold-file', hold);
  const world = await start(context, model, ['--backend', 'cpu', '--runner', runner]);
  return { ...world, letGo: () => rmSync(hold) };
}

const pingsOf = (socket: NotifySocket) => socket.texts.filter((text) => text === 'WATCHDOG=1');

test('READY=1 is the first phase, reported when HTTP listens; the status follows the model and the streams', async (context) => {
  const { gateway, socket, letGo } = await startHeld(context);
  const { text } = await socket.awaits('READY=1');
  // A machine that takes long to start is also asked for more time.
  assert.is(
    socket.texts.find((each) => /^(READY|RELOADING|STOPPING)=/.test(each)),
    text,
  );
  assert.match(text, /^READY=1\nSTATUS=starting, 0 streams, model-\d/, 'the model is not loaded yet');
  const name = / streams, (model-\d+)/.exec(text)?.[1];
  await socket.awaits(`STATUS=ready, 0 streams, ${name}`);
  const answer = gateway.post('/execute', { job_id: 'a', prompt: 'Once', max_tokens: 9 });
  await socket.awaits(`STATUS=ready, 1 stream, ${name}`);
  letGo();
  assert.is((await readNativeAnswer(await answer)).last.event, 'end');
});

test('a runner that stands still stops no ping; a gateway that does sends none', async (context) => {
  const { gateway, socket } = await start(context);
  await gateway.ready();
  const runnerPid = (await gateway.health()).runner.pid ?? 0;
  process.kill(runnerPid, 'SIGSTOP');
  try {
    const numPings = pingsOf(socket).length;
    await until(PATIENCE_MS, 'Pings beside a stopped runner', () => pingsOf(socket).length >= numPings + 4);
  } finally {
    process.kill(runnerPid, 'SIGCONT');
  }
  gateway.process.kill('SIGSTOP');
  await until(PATIENCE_MS, 'The stop', () => stateOf(gateway.process.pid ?? 0) === 'T');
  const helper = childNamed(gateway.process.pid, 'sd-notify');
  await socket.delivered(helper);
  await elapsed(3 * WATCHDOG_MS);
  assert.equal(await socket.delivered(helper), []);
  const numPings = pingsOf(socket).length;
  gateway.process.kill('SIGCONT');
  await until(PATIENCE_MS, 'A ping again', () => pingsOf(socket).length > numPings);
});

test('systemctl reload starts a new runner, and reports its beginning and readiness', async (context) => {
  const { gateway, socket } = await start(context);
  await gateway.ready();
  const [command = '', ...others] = unitValues('deploy/runnel.service', 'ExecReload');
  assert.match(command, /^\/\S+ /, 'systemd wants the whole path of a program');
  assert.equal(others, []);
  execFileSync('sh', ['-c', command], { env: { MAINPID: String(gateway.process.pid) } });
  const begun = await socket.awaits('RELOADING=1');
  await until(PATIENCE_MS, 'The end of the reload', () =>
    socket.datagrams.slice(socket.datagrams.indexOf(begun)).some(({ text }) => text.startsWith('READY=1')),
  );
  assert.is((await gateway.health()).runner.restarts, 1);
});

test('STOPPING=1 is the first word after SIGTERM; pings and requests for time go on until the last stream has ended', async (context) => {
  const { gateway, socket, letGo } = await startHeld(context);
  await gateway.ready();
  const answer = gateway.post('/execute', { job_id: 'a', prompt: 'Once', max_tokens: 9 });
  await gateway.healthWhere(({ runner }) => runner.open_requests === 1, 'The open stream');
  const heard = socket.datagrams.length;
  const stopped = gateway.stop();
  const isStopping = (text: string) => text.startsWith('STOPPING=1\nSTATUS=');
  const during = (wanted: string) => {
    const begin = socket.texts.findIndex(isStopping);
    return begin < 0 ? 0 : socket.texts.slice(begin).filter((text) => text === wanted).length;
  };
  // The stream is open, and the test lets it last until it has seen more than the messages that were due at its beginning.
  await until(PATIENCE_MS, 'Pings', () => during('WATCHDOG=1') >= 4);
  await until(PATIENCE_MS, 'Requests for time', () => during('EXTEND_TIMEOUT_USEC=10000000') >= 2);
  assert.ok(socket.texts.slice(heard).some((text) => text.startsWith('STATUS=stopping, 1 stream')));
  letGo();
  assert.is((await readNativeAnswer(await answer)).last.event, 'end');
  assert.equal(await stopped, { code: 0, signal: null });
  const said = socket.texts
    .slice(heard)
    .filter((text) => text !== 'WATCHDOG=1' && !/^STATUS=ready/.test(text));
  assert.ok(isStopping(said[0] ?? ''), said[0]);
});

test('the runner is given none of systemd’s variables and none of its sockets', async (context) => {
  const { gateway } = await start(context);
  await gateway.ready();
  const pid = (await gateway.health()).runner.pid;
  assert.not.match(readFileSync(`/proc/${pid}/environ`, 'utf8'), /NOTIFY_SOCKET|WATCHDOG_|LISTEN_/);
  for (const fd of [0, 1, 2]) assert.match(readlinkSync(`/proc/${pid}/fd/${fd}`), /^(pipe|socket):/);
});

test.run();
