import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { UsageError } from '../../../gateway/errors/exit-code.ts';
import { systemEvery } from '../../../gateway/system/clock.ts';
import {
  createNotifier,
  EXTENSION_MS,
  type Notifier,
  type NotifierOptions,
  STATUS_INTERVAL_MS,
  watchdogMs,
} from '../../../gateway/systemd/notifier.ts';
import { createLog } from '../../../gateway/telemetry/log.ts';
import { isAlive } from '../../fixtures/gateway.ts';
import { NotifySocket } from '../../fixtures/notify-socket.ts';
import { temporaryFolder } from '../../fixtures/temporary-folder.ts';
import { VirtualClock } from '../../fixtures/virtual-clock.ts';
import { PATIENCE_MS, until } from '../../fixtures/within.ts';

interface World {
  socket: NotifySocket;
  clock: VirtualClock;
  notifier: Notifier | undefined;
  logged: Logged[];
}

const test = suite<World>('notifier');
const folder = temporaryFolder();
const WATCHDOG_MS = 400;
const EXTENSION = `EXTEND_TIMEOUT_USEC=${EXTENSION_MS * 1000}`;

interface Logged {
  readonly level: string;
  readonly event: string;
  readonly msg: string;
}

let numSockets = 0;
let status = '';

test.before.each(async (context) => {
  status = 'ready, 0 streams, smollm2';
  context.logged = [];
  context.clock = new VirtualClock();
  context.socket = await NotifySocket.open(join(folder.path, `notify-${numSockets++}`));
});
test.after.each(({ notifier, socket }) => {
  notifier?.close();
  // undefined if the hook before has failed.
  socket?.close();
});

function start(
  context: World,
  env: NodeJS.ProcessEnv = {},
  options: Partial<NotifierOptions> = {},
): Notifier {
  const log = createLog('debug', undefined, {
    write: (line) => context.logged.push(JSON.parse(line) as Logged),
  });
  const notifier = createNotifier(
    { NOTIFY_SOCKET: context.socket.name, ...env },
    { status: () => status, log, every: context.clock.every, ...options },
  );
  assert.ok(notifier);
  context.notifier = notifier;
  return notifier;
}

const withWatchdog = { WATCHDOG_USEC: String(WATCHDOG_MS * 1000) };

test('without a socket nothing is started', () => {
  let numAsked = 0;
  const options = { status: () => String(++numAsked), log: createLog('silent') };
  assert.is(createNotifier(withWatchdog, options), undefined);
  assert.is(numAsked, 0);
});

test('each phase is one datagram with its status; a reload has the time of systemd’s clock', async (context) => {
  const notifier = start(context);
  notifier.ready();
  const before = process.hrtime.bigint() / 1000n;
  const end = notifier.reloading();
  const after = process.hrtime.bigint() / 1000n;
  end();
  notifier.stopping();
  const { socket } = context;
  await until(PATIENCE_MS, 'Four datagrams', () => socket.texts.length >= 4);
  const usec = /^RELOADING=1\nMONOTONIC_USEC=(\d+)\n/.exec(socket.texts[1] ?? '')?.[1] ?? '';
  assert.ok(BigInt(usec) >= before && BigInt(usec) <= after);
  assert.equal(socket.texts.slice(0, 4), [
    `READY=1\nSTATUS=${status}`,
    `RELOADING=1\nMONOTONIC_USEC=${usec}\nSTATUS=${status}`,
    `READY=1\nSTATUS=${status}`,
    `STOPPING=1\nSTATUS=${status}`,
  ]);
});

test('overlapping reloads are notified once, not before listening or while stopping', async (context) => {
  const notifier = start(context);
  const phases = () =>
    context.socket.texts.map((text) => /^(READY|RELOADING|STOPPING)=1/.exec(text)?.[1]).filter(Boolean);
  const early = notifier.reloading();
  early();
  notifier.ready();
  const first = notifier.reloading();
  const second = notifier.reloading();
  second();
  second();
  first();
  const last = notifier.reloading();
  notifier.stopping();
  last();
  notifier.reloading()();
  status = 'stopping, 0 streams, smollm2';
  context.clock.pass(STATUS_INTERVAL_MS);
  await context.socket.awaits(`STATUS=${status}`);
  assert.equal(phases(), ['READY', 'RELOADING', 'READY', 'RELOADING', 'STOPPING']);
});

/** What the helper has sent since the last call. */
function sent({ socket, notifier }: World): Promise<string[]> {
  return socket.delivered(notifier?.helperPid ?? 0);
}

test('the status is sent when it has changed, and at most once in its interval', async (context) => {
  const { clock } = context;
  start(context).ready();
  await sent(context);
  for (let numStreams = 1; numStreams <= 30; numStreams++) {
    status = `ready, ${numStreams} streams, smollm2`;
    clock.pass(STATUS_INTERVAL_MS / 10);
  }
  assert.equal(
    await sent(context),
    [10, 20, 30].map((numStreams) => `STATUS=ready, ${numStreams} streams, smollm2`),
  );
  clock.pass(3 * STATUS_INTERVAL_MS);
  assert.equal(await sent(context), []);
});

test('pings come every half of the watchdog’s time, from the first to the last, also while stopping', async (context) => {
  const { clock } = context;
  const notifier = start(context, withWatchdog);
  /** The pings of ten times half the watchdog's time, each with the number of halves before it. */
  const pings = async (): Promise<number[]> => {
    const found: number[] = [];
    for (let half = 1; half <= 10; half++) {
      clock.pass(WATCHDOG_MS / 2);
      found.push(...(await sent(context)).filter((text) => text === 'WATCHDOG=1').map(() => half));
    }
    return found;
  };
  const each = Array.from({ length: 10 }, (_, index) => index + 1);
  assert.equal(await pings(), each, 'while it starts');
  notifier.ready();
  assert.equal(await pings(), each);
  notifier.stopping();
  assert.equal(await pings(), each, 'while it stops');
});

test('an event loop that stands still is silent, whatever its helper does', async (context) => {
  const { helperPid = 0 } = start(context, withWatchdog, { every: systemEvery });
  const { socket } = context;
  await socket.awaits('WATCHDOG=1');
  const begin = socket.markDelivery(helperPid);
  const untilMs = performance.now() + 3 * WATCHDOG_MS;
  while (performance.now() < untilMs);
  const end = socket.markDelivery(helperPid);
  await socket.awaits(end);
  assert.is(socket.texts.indexOf(end), socket.texts.indexOf(begin) + 1, 'nothing came between the marks');
  const numDatagrams = socket.texts.length;
  await until(PATIENCE_MS, 'A ping again', () => socket.texts.slice(numDatagrams).includes('WATCHDOG=1'));
});

test('in phases that systemd bounds it is asked for more time, and in no other', async (context) => {
  const { clock } = context;
  const notifier = start(context);
  const numExtensions = async (numLooks: number): Promise<number> => {
    clock.pass(numLooks * STATUS_INTERVAL_MS);
    return (await sent(context)).filter((text) => text === EXTENSION).length;
  };
  assert.is(await numExtensions(3), 3, 'while it starts');
  notifier.ready();
  assert.is(await numExtensions(3), 0);
  notifier.reloading();
  assert.is(await numExtensions(3), 3, 'while it reloads');
  notifier.stopping();
  assert.is(await numExtensions(3), 3, 'while it stops');
});

test('a watchdog for another process is none, one for this process is half of it; nonsense is refused', () => {
  assert.is(watchdogMs({}, 7), undefined);
  assert.is(watchdogMs({ WATCHDOG_USEC: '30000000' }, 7), 30_000);
  assert.is(watchdogMs({ WATCHDOG_USEC: '30000000', WATCHDOG_PID: '7' }, 7), 30_000);
  assert.is(watchdogMs({ WATCHDOG_USEC: '30000000', WATCHDOG_PID: '8' }, 7), undefined);
  for (const usec of ['', '0', '-1', '1.5', 'soon'])
    assert.throws(
      () => watchdogMs({ WATCHDOG_USEC: usec }, 7),
      (error: unknown) => error instanceof UsageError,
    );
});

test('a helper that dies is replaced once and resends the notifications', async (context) => {
  const notifier = start(context);
  const { socket, logged } = context;
  notifier.ready();
  await socket.awaits('READY=1');
  const first = notifier.helperPid ?? 0;
  process.kill(first, 'SIGKILL');
  await until(
    PATIENCE_MS,
    'READY=1 again',
    () => socket.texts.filter((text) => text.startsWith('READY=1')).length === 2,
  );
  assert.match(logged[0]?.msg ?? '', 'sd-notify failed (it ended with SIGKILL); it is started again.');
  const second = notifier.helperPid ?? 0;
  assert.is.not(second, first);
  process.kill(second, 'SIGKILL');
  await until(PATIENCE_MS, 'The last word of it', () => logged.length === 2);
  assert.equal([logged[1]?.level, logged[1]?.event], ['error', 'systemd_notify_failed']);
  assert.is(notifier.helperPid, undefined);
  notifier.stopping();
});

test('a helper that is not there is said, and ends nothing', async (context) => {
  start(context, {}, { file: '/nowhere/sd-notify' }).ready();
  await until(PATIENCE_MS, 'Both attempts', () => context.logged.length === 2);
  assert.match(context.logged[0]?.msg ?? '', 'spawn /nowhere/sd-notify ENOENT');
  assert.not(existsSync('/nowhere'));
});

test('close leaves no process', async (context) => {
  const notifier = start(context);
  notifier.ready();
  const pid = notifier.helperPid ?? 0;
  assert.ok(isAlive(pid));
  notifier.close();
  await until(PATIENCE_MS, 'The end of the helper', () => !isAlive(pid));
  assert.equal(context.logged, []);
});

test.run();
