/** A pool over real processes whose memory outlives them: what they are given, and what a death, a lie or a shortage changes. */
import { execFileSync } from 'node:child_process';
import { closeSync, openSync, readdirSync, readFileSync, statSync } from 'node:fs';
import * as assert from 'uvu/assert';
import { KvDisk, maxFlushMs } from '../../../../gateway/runner/kv-disk/kv-disk.ts';
import { NO_KV_DISK } from '../../../../gateway/runner/kv-disk/messages.ts';
import type { RunnerPoolOptions } from '../../../../gateway/runner/supervision/runner-pool.ts';
import { closingSuite } from '../../../fixtures/closing-suite.ts';
import { CPU_RUNNER } from '../../../fixtures/default-model.ts';
import { programFile } from '../../../fixtures/programs.ts';
import {
  collectExact,
  onceAt,
  patienceMs,
  requestOf,
  supervised,
  temporaryDirectory,
} from '../../../fixtures/supervised.ts';
import { VirtualClock } from '../../../fixtures/virtual-clock.ts';
import { until } from '../../../fixtures/within.ts';

const suite = closingSuite('kept memory');

interface Settings {
  readonly flags?: readonly string[];
  /** What makes the memory, as a line of a shell. */
  readonly memory?: string;
  readonly weightsKey?: string;
  readonly options?: Partial<RunnerPoolOptions>;
}

/** Two fake runners with memory that outlives them. */
async function keeping({ flags = [], memory, weightsKey, options }: Settings = {}) {
  const directory = temporaryDirectory();
  const fake = [process.execPath, programFile('fake-runner'), '--echo-file', directory.path('echo')];
  const script = directory.write(
    'runner',
    `#!/bin/sh
if [ "$1" = memory ]; then ${memory ?? `exec '${CPU_RUNNER}' memory`}; fi
exec ${[...fake, '--delay-ms', '5', ...flags].map((word) => `'${word}'`).join(' ')} "$@"
`,
  );
  execFileSync('chmod', ['+x', script]);
  const command = {
    file: script,
    args: [],
    kvKey: 'key',
    ...(weightsKey === undefined ? {} : { weightsKey }),
  };
  const pool = supervised([], { command: () => command, numRunners: 2, ...options });
  const runners = () => pool.supervisor.status().runners ?? [];
  const areReady = () => runners().every(({ state }) => state === 'ready');
  await until(patienceMs, 'two runners', areReady);
  return {
    ...pool,
    areReady,
    echoed: () => directory.jsonLines('echo'),
    pidOf: (place: number) => runners()[place]?.pid as number,
    /** Kills the runner that has the open request, and waits until this is noticed. Returns its place. */
    killBusy: async () => {
      const place = runners().findIndex(({ openRequests }) => openRequests > 0);
      const pid = runners()[place]?.pid as number;
      process.kill(pid, 'SIGKILL');
      await until(patienceMs, 'the notice of the death', () => runners()[place]?.pid !== pid);
      return place;
    },
  };
}

/** The file behind a descriptor of a process. */
const fileOf = (pid: number | 'self', descriptor: number | string): number =>
  statSync(`/proc/${pid}/fd/${descriptor}`).ino;

function openFiles(): number[] {
  return readdirSync('/proc/self/fd').flatMap((descriptor) => {
    try {
      return fileOf('self', descriptor);
    } catch {
      return [];
    }
  });
}

const request = requestOf([7, 8, 9], 60);
/** The caches that runners were sent to with a request that had tokens already. */
const sentTo = (echoed: Record<string, Record<string, unknown>>[]) =>
  echoed.flatMap(({ generate = {} }) => (Number(generate.numEmitted) > 0 ? [generate.kvFrom] : []));

suite('a survivor is sent to the cache of the dead runner, and the next runner there has the same memory', async () => {
  const { supervisor, areReady, killBusy, pidOf, echoed, eventsOf } = await keeping();
  const before = [0, 1].map((place) => fileOf(pidOf(place), 3));
  assert.equal([fileOf(pidOf(0), 4), fileOf(pidOf(1), 4)], [before[1], before[0]]);
  let place = -1;
  const kill = async () => {
    place = await killBusy();
  };
  await collectExact(supervisor, request, { onBatch: onceAt(5, kill) });
  assert.equal(sentTo(echoed()), [[4]]);
  await until(patienceMs, 'the next runner', areReady);
  assert.is(fileOf(pidOf(place), 3), before[place]);
  assert.equal(eventsOf('kv_cache_dropped'), []);
});

suite('the memory of a runner that was killed for lack of memory is let go by all, and nobody is sent there', async () => {
  let numKills = 0;
  const options = { oomKills: () => numKills };
  const { supervisor, areReady, killBusy, pidOf, echoed, eventsOf } = await keeping({ options });
  const before = [0, 1].map((each) => fileOf(pidOf(each), 3));
  let place = -1;
  const kill = async () => {
    numKills += 1;
    place = await killBusy();
  };
  await collectExact(supervisor, request, { onBatch: onceAt(5, kill) });
  assert.equal(sentTo(echoed()), [undefined]);
  assert.equal(
    echoed().flatMap(({ releaseKv }) => releaseKv ?? []),
    [{ descriptor: 4 }],
  );
  assert.equal(
    eventsOf('kv_cache_dropped').map(({ runner, reason }) => [runner, reason]),
    [[place, 'Memory ran out.']],
  );
  const old = before[place] as number;
  await until(patienceMs, 'the end of the old memory', () => !openFiles().includes(old));
  await until(patienceMs, 'the next runner', areReady);
  assert.is.not(fileOf(pidOf(place), 3), old);
  assert.is(fileOf(pidOf(place), 4), before[1 - place], 'the memory of the other place is the same');
});

suite('a pool that has stopped has its memory closed by the keeper of the disk too, if the keeper answers', async () => {
  for (const answers of [true, false]) {
    const heard: string[] = [];
    const clock = new VirtualClock();
    const disk = new KvDisk({
      ...{ path: '/kv', fileBytes: 1000, secretPath: '/secret', clock, log: () => {} },
      start: ({ onMessage }) => ({
        send: (message) => {
          if (message.type === 'open') setImmediate(() => onMessage({ type: 'opened', figures: NO_KV_DISK }));
          else if (message.type !== 'save') heard.push(message.type);
          if (message.type !== 'flush') return;
          if (answers) setImmediate(() => onMessage({ type: 'saved', number: message.number }));
          else setImmediate(() => clock.pass(maxFlushMs));
        },
        end: async () => {},
      }),
    });
    const { supervisor } = await keeping({ options: { disk: disk.pool() } });
    heard.length = 0;
    await supervisor.stop(0);
    const letGo = ['no_place', 'no_place', 'staging'];
    assert.equal(heard, ['flush', ...letGo, ...(answers ? ['flush'] : []), 'no_pool']);
  }
});

suite('a runner that lies about its weights, or about the memory that it makes, costs nobody a token', async () => {
  const flags = ['--weights-descriptor', '999'];
  const { supervisor, killBusy, eventsOf, echoed } = await keeping({
    flags,
    memory: 'echo 998; exit',
    weightsKey: 'a',
  });
  for (const { reason } of eventsOf('weights_dropped'))
    assert.match(
      String(reason),
      /^Descriptor 999 of runner \d+, which is to hold its weights, cannot be opened/,
    );
  assert.is(eventsOf('weights_dropped').length, 2, 'each packs its own');
  const dropped = eventsOf('kv_cache_dropped');
  assert.ok(dropped.length >= 2);
  for (const { reason } of dropped)
    assert.match(String(reason), /memory made no memory for KV caches: .*ENOENT/);
  await collectExact(supervisor, request, { onBatch: onceAt(5, async () => void (await killBusy())) });
  assert.equal(sentTo(echoed()), [undefined]);
});

/** Takes all descriptors that are left below a limit. Returns a function that gives them back. */
function takeDescriptors(): () => void {
  const limit = /^Max open files +(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8'))?.[1];
  const limitTo = (number: string) =>
    execFileSync('prlimit', [`--pid=${process.pid}`, `--nofile=${number}:`]);
  limitTo(String(openFiles().length + 64));
  const taken: number[] = [];
  try {
    for (;;) taken.push(openSync('/dev/null', 'r'));
  } catch {
    // None is left.
  }
  return () => {
    for (const descriptor of taken) closeSync(descriptor);
    limitTo(String(limit));
  };
}

suite('without descriptors the survivor goes on alone, and with some the place has a runner again', async () => {
  const { supervisor, areReady, killBusy, pidOf, echoed, eventsOf } = await keeping();
  const before = [0, 1].map((each) => fileOf(pidOf(each), 3));
  let place = -1;
  let giveBack = () => {};
  const kill = async () => {
    giveBack = takeDescriptors();
    place = await killBusy();
  };
  try {
    await collectExact(supervisor, request, { onBatch: onceAt(5, kill) });
    assert.equal(sentTo(echoed()), [[4]]);
    const isRefused = () =>
      eventsOf('runner_restarting').some(({ reason }) => /no file descriptors are free/.test(String(reason)));
    await until(patienceMs, 'a start without descriptors', isRefused);
  } finally {
    giveBack();
  }
  await until(patienceMs, 'the next runner', areReady);
  assert.is(fileOf(pidOf(place), 3), before[place], 'its memory was kept meanwhile');
  assert.equal(eventsOf('kv_cache_dropped'), []);
});

suite.run();
