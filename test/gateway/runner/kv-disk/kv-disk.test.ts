/** The gateway's side of the file: the test plays the keeper's process. */
import { openSync } from 'node:fs';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { KeeperLink } from '../../../../gateway/runner/kv-disk/keeper-link.ts';
import {
  KvDisk,
  type KvDiskEvent,
  maxFlushMs,
  maxLoadMs,
  maxRestartMs,
  restartMs,
} from '../../../../gateway/runner/kv-disk/kv-disk.ts';
import { type FromKeeper, NO_KV_DISK, type ToKeeper } from '../../../../gateway/runner/kv-disk/messages.ts';
import { temporaryFolder } from '../../../fixtures/temporary-folder.ts';
import { VirtualClock } from '../../../fixtures/virtual-clock.ts';

const test = suite('kv disk');
const folder = temporaryFolder();
const memoryOf = (name: string) => {
  const own = openSync(folder.write(name, 'memory'), 'r+');
  return { own, reader: own };
};
const [placeMemory, stagingMemory] = [memoryOf('place'), memoryOf('staging')];
const noSalt = new Uint8Array();
const MODEL = '0123abcd-1-2-3';

/** A disk whose keepers are the test. */
function playing() {
  const clock = new VirtualClock();
  const events: KvDiskEvent[] = [];
  const keepers: {
    readonly heard: ToKeeper[];
    say(message: FromKeeper): void;
    die(reason?: string): void;
  }[] = [];
  let numEnded = 0;
  const start = (heard: {
    onMessage(message: FromKeeper): void;
    onEnd(reason: string): void;
  }): KeeperLink => {
    const sent: ToKeeper[] = [];
    const end = async (): Promise<void> => {
      numEnded += 1;
    };
    keepers.push({ heard: sent, say: heard.onMessage, die: (reason = 'It died.') => heard.onEnd(reason) });
    return { send: (message) => sent.push(message), end };
  };
  const disk = new KvDisk({
    ...{ path: '/kv', fileBytes: 1000, secretPath: '/secret', clock, start },
    log: (event) => events.push(event),
  });
  const keeper = () => keepers.at(-1) as (typeof keepers)[number];
  return {
    ...{ disk, clock, events, keeper },
    numKeepers: () => keepers.length,
    numEnded: () => numEnded,
    /** What the keeper of now has heard. */
    heard: () => keeper().heard.map(({ type }) => type),
    open: () => keeper().say({ type: 'opened', figures: { ...NO_KV_DISK, numBlocks: 3, usedBytes: 300 } }),
  };
}

/** The number of the last message that has one. */
const lastNumber = (heard: readonly ToKeeper[]): number =>
  heard.flatMap((message) => ('number' in message ? message.number : [])).at(-1) ?? 0;

test('blocks are looked for once the file is open', async () => {
  const { disk, keeper, heard, open, events } = playing();
  const pool = disk.pool();
  pool.setStaging(stagingMemory);
  pool.setPlace(0, placeMemory);
  pool.setModel(MODEL);
  assert.equal(heard(), ['open', 'staging', 'place', 'model']);
  assert.equal(keeper().heard.at(-1), { type: 'model', pool: 1, identity: MODEL });
  assert.is(pool.load([1, 2, 3], noSalt), undefined);
  pool.onComputed();
  await pool.flush();
  assert.equal(heard().length, 4);
  open();
  assert.equal(events, [{ level: 'info', event: 'kv_disk_opened', file: '/kv', blocks: 3, bytes: 300 }]);
  const loading = pool.load([1, 2, 3], Buffer.from('salt'));
  assert.ok(loading);
  assert.equal(keeper().heard.at(-1), {
    ...{ type: 'load', number: 1, pool: 1 },
    ...{ ids: Uint32Array.from([1, 2, 3]), salt: Buffer.from('salt') },
  });
  keeper().say({ type: 'loaded', number: 1, numBlocks: 2, places: [0] });
  assert.equal(await loading.done, [0]);
  loading.release();
  assert.equal(keeper().heard.at(-1), { type: 'release', number: 1, pool: 1 });
  pool.onComputed();
  assert.equal(keeper().heard.at(-1), { type: 'save', pool: 1 });
});

test('a load without blocks, without an answer in time or without a keeper names no place', async () => {
  const { disk, clock, keeper, open } = playing();
  const pool = disk.pool();
  open();
  const [empty, slow, orphaned] = [1, 2, 3].map((id) => pool.load([id], noSalt));
  assert.ok(empty && slow && orphaned);
  keeper().say({ type: 'loaded', number: 1, numBlocks: 0, places: [] });
  assert.is(await empty.done, undefined);
  clock.pass(maxLoadMs);
  assert.is(await slow.done, undefined);
  assert.is(await orphaned.done, undefined);
  const last = pool.load([4], noSalt);
  keeper().die();
  assert.is(await last?.done, undefined);
  assert.is(pool.load([5], noSalt), undefined);
});

test('the next keeper learns all that the last one knew, later and later if it finds no file', () => {
  const { disk, clock, keeper, heard, numKeepers, open, events } = playing();
  const pool = disk.pool();
  pool.setStaging(stagingMemory);
  pool.setPlace(1, placeMemory);
  pool.setModel(MODEL);
  open();
  keeper().die('It ended with SIGKILL.');
  assert.equal(events.at(-1), {
    ...{ level: 'error', event: 'kv_disk_failed' },
    ...{ file: '/kv', reason: 'It ended with SIGKILL.' },
  });
  clock.pass(restartMs);
  assert.is(numKeepers(), 2);
  assert.equal(heard(), ['open', 'staging', 'model', 'place']);
  keeper().say({ type: 'failed', reason: 'No space is left.' });
  keeper().die('It ended with status 0.');
  assert.is(events.at(-1)?.reason, 'No space is left.');
  clock.pass(2 * restartMs - 1);
  assert.is(numKeepers(), 2);
  clock.pass(1);
  assert.is(numKeepers(), 3);
  for (let death = 0; death < 10; death += 1) {
    keeper().die();
    clock.pass(maxRestartMs);
  }
  assert.is(numKeepers(), 13);
  open();
  keeper().die();
  clock.pass(restartMs);
  assert.is(numKeepers(), 14);
});

test('the next keeper learns that a place was distrusted while there was none, and which places are older than itself', () => {
  const { disk, clock, keeper, heard, open } = playing();
  const pool = disk.pool();
  for (const place of [0, 1]) pool.setPlace(place, placeMemory);
  open();
  const older = (): unknown[] =>
    keeper().heard.flatMap((message) => (message.type === 'place' ? [message.isOlder] : []));
  assert.equal(older(), [false, false]);
  pool.dropPlace(0, true);
  keeper().die();
  clock.pass(restartMs);
  assert.equal(heard(), ['open', 'staging', 'place']);
  assert.equal(older(), [true]);
  keeper().die();
  pool.dropPlace(1, true);
  clock.pass(2 * restartMs);
  assert.equal(heard(), ['open', 'distrust', 'staging']);
  keeper().die();
  clock.pass(4 * restartMs);
  assert.equal(heard(), ['open', 'distrust', 'staging'], 'the keeper before has not had the file');
  open();
  keeper().die();
  clock.pass(restartMs);
  assert.equal(heard(), ['open', 'staging']);
});

test('counters go on over keepers, and what is in the file is what the last one says', () => {
  const { disk, clock, keeper, open } = playing();
  open();
  assert.is(disk.figures.numBlocks, 3);
  keeper().say({
    type: 'figures',
    figures: { numBlocks: 5, usedBytes: 500, numSaved: 2, numLoaded: 4, numDropped: 1 },
  });
  keeper().die();
  assert.equal(disk.figures, { numBlocks: 0, usedBytes: 0, numSaved: 2, numLoaded: 4, numDropped: 1 });
  clock.pass(restartMs);
  keeper().say({ type: 'opened', figures: { ...NO_KV_DISK, numBlocks: 5, usedBytes: 500 } });
  keeper().say({
    type: 'figures',
    figures: { numBlocks: 6, usedBytes: 600, numSaved: 1, numLoaded: 0, numDropped: 0 },
  });
  assert.equal(disk.figures, { numBlocks: 6, usedBytes: 600, numSaved: 3, numLoaded: 4, numDropped: 1 });
});

test('the end of a pool waits until its blocks are saved, but not for ever', async () => {
  const { disk, clock, keeper, open, heard } = playing();
  const pool = disk.pool();
  pool.setPlace(0, placeMemory);
  open();
  const flushed = pool.flush();
  assert.is(heard().at(-1), 'flush');
  keeper().say({ type: 'saved', number: lastNumber(keeper().heard) });
  await flushed;
  const endless = pool.flush();
  clock.pass(maxFlushMs);
  await endless;
  pool.dropPlace(0, true);
  pool.dropPlace(0, true);
  pool.close();
  assert.equal(keeper().heard.slice(-2), [
    { type: 'no_place', pool: 1, place: 0, isDistrusted: true },
    { type: 'no_pool', pool: 1 },
  ]);
  keeper().die();
  clock.pass(restartMs);
  assert.equal(heard(), ['open'], 'a pool that is closed is forgotten');
});

test('waiting for another process is in the log', () => {
  const { keeper, events } = playing();
  keeper().say({ type: 'waiting', ownerPid: 42 });
  assert.equal(events, [{ level: 'warn', event: 'kv_disk_waiting', file: '/kv', owner_pid: 42 }]);
});

test('after the end no keeper is started', async () => {
  const { disk, clock, keeper, numKeepers, numEnded } = playing();
  await disk.close();
  assert.is(numEnded(), 1);
  keeper().die();
  clock.pass(maxRestartMs);
  assert.is(numKeepers(), 1);
});

test.run();
