import {
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  statSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import { basename, join } from 'node:path';
import * as assert from 'uvu/assert';
import { type BatchStatus, windows } from '../../../gateway/batches/batch.ts';
import { maxKeptBatches, maxOpenBatches } from '../../../gateway/batches/batches.ts';
import type { StoredFile } from '../../../gateway/batches/file-store.ts';
import { ANONYMOUS } from '../../../gateway/system/caller.ts';
import { BatchWorld, lineOf } from '../../fixtures/batch-world.ts';
import { closingSuite } from '../../fixtures/closing-suite.ts';
import { callerNamed } from '../../fixtures/keys.ts';
import { PATIENCE_MS, until } from '../../fixtures/within.ts';

const test = closingSuite('batches');

const windowMs = windows['24h'];
const NAMES = ['a', 'b', 'c', 'd', 'e'];

async function reached(world: BatchWorld, status: BatchStatus, id = 'batch_a'): Promise<void> {
  await until(PATIENCE_MS, `The status ${status}`, () => world.batch(id).status === status);
}

interface Told {
  readonly custom_id: string;
  readonly response: {
    readonly status_code: number;
    readonly body: { readonly said: string; readonly by: string };
  } | null;
  readonly error: { readonly code: string } | null;
}

/** The lines of the output or of the errors. */
function linesOf(world: BatchWorld, id: string | undefined): Told[] {
  if (id === undefined) return [];
  const text = readFileSync(world.batches.files.pathOf({ id }), 'utf8');
  return text
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line));
}

function told(world: BatchWorld): { output: string[]; errors: string[] } {
  const { outputFileId, errorFileId } = world.batch();
  return {
    output: linesOf(world, outputFileId).map(({ custom_id }) => custom_id),
    errors: linesOf(world, errorFileId).map(
      ({ custom_id, response, error }) => `${custom_id} ${error?.code ?? response?.status_code}`,
    ),
  };
}

const never = (): Promise<never> => new Promise(() => {});

test('lines are answered a few at a time, and the files have them in the order of the input', async () => {
  const world = new BatchWorld().begin();
  const gates = new Map<string, () => void>();
  let most = 0;
  world.reply = async (_, name) => {
    most = Math.max(most, world.open.size);
    await new Promise<void>((resolve) => gates.set(name, resolve));
    return name === 'c' ? { status: 400, body: '{\n "error": 1}' } : {};
  };
  await world.create(NAMES);
  for (const name of ['b', 'a', 'd', 'c', 'e']) {
    await until(PATIENCE_MS, `The line ${name}`, () => gates.has(name));
    gates.get(name)?.();
  }
  await reached(world, 'completed');
  assert.equal(told(world), { output: ['a', 'b', 'd', 'e'], errors: ['c 400'] });
  assert.is(most, 2);
  const { numLines, numCompleted, numFailed } = world.batch();
  assert.equal([numLines, numCompleted, numFailed], [5, 4, 1]);
  assert.is(world.journal.size, 0);
});

test('a file with faults fails the batch before any line is answered', async () => {
  const world = new BatchWorld().begin();
  await world.create(['a', 'bad', 'a']);
  await reached(world, 'failed');
  assert.equal(
    world.batch().faults?.map(({ code, line }) => [code, line]),
    [
      ['invalid_value', 2],
      ['duplicate_custom_id', 3],
    ],
  );
  assert.equal([world.numBegun, told(world)], [0, { output: [], errors: [] }]);
});

test('a death at any turn of the loop costs no line, and what was answered is not answered again', async () => {
  const world = new BatchWorld().begin();
  const answered = new Set<string>();
  world.reply = async (_, name) => {
    await new Promise((resolve) => setImmediate(resolve));
    answered.add(name);
    return {};
  };
  await world.create(NAMES);
  const deaths: { readonly next: BatchWorld; readonly before: ReadonlySet<string> }[] = [];
  do {
    // The journal is copied in the same turn as the folder.
    const before = new Set([...answered].filter((name) => !world.open.has(name)));
    deaths.push({ next: world.copy({ name: 'next' }), before });
    await new Promise((resolve) => setImmediate(resolve));
  } while (world.batch().status !== 'completed');
  deaths.push({ next: world.copy({ name: 'next' }), before: answered });
  const statuses = new Set<string>();
  for (const { next, before } of deaths) {
    const { status } = next.batch();
    statuses.add(status);
    next.begin();
    await reached(next, 'completed');
    assert.equal(told(next), { output: NAMES, errors: [] }, status);
    for (const { custom_id, response } of linesOf(next, next.batch().outputFileId))
      if (before.has(custom_id)) assert.is(response?.body.by, 'first', `${custom_id} after ${status}`);
    assert.ok(next.numBegun <= NAMES.length - before.size, status);
    await next.batches.stop();
  }
  assert.equal([...statuses].sort(), ['completed', 'finalizing', 'in_progress', 'validating']);
  console.log(`${deaths.length} places of death`);
});

/** Comes to the status, in which it then is for some turns of the loop at least. */
async function atStatus(world: BatchWorld, status: BatchStatus): Promise<void> {
  while (world.batch().status !== status) await new Promise((resolve) => setImmediate(resolve));
}

/** A batch of which the first line has its result and two others are open. */
async function halfAnswered(world: BatchWorld, numOpen = 2): Promise<void> {
  world.reply = (_, name) => (name === 'a' ? Promise.resolve({}) : never());
  await world.create(NAMES);
  const open = ['b', 'c'].slice(0, numOpen);
  await until(PATIENCE_MS, 'Open lines', () => open.every((name) => world.open.has(name)));
}

const REST = ['b', 'c', 'd', 'e'];

test('a cancel keeps what is answered, ends what is open, and names each line that has no answer', async () => {
  const world = new BatchWorld().begin();
  await halfAnswered(world);
  world.journal.set('batch_a-2', 'begun');
  const cancelled = world.batches.cancel('batch_a');
  assert.is(await cancelled, true);
  assert.is(await world.batches.cancel('batch_a'), true, 'twice');
  await reached(world, 'cancelled');
  assert.equal(told(world), { output: ['a'], errors: REST.map((name) => `${name} batch_cancelled`) });
  assert.equal([world.open.size, world.journal.size], [0, 0]);
  const { reachedMs, numCompleted, numFailed } = world.batch();
  assert.equal(Object.keys(reachedMs), ['in_progress', 'cancelling', 'cancelled']);
  assert.equal([numCompleted, numFailed], [1, 4]);
});

test('a cancel is kept in each status that allows one, also if the process dies next, and refused in the others', async () => {
  const world = new BatchWorld().begin();
  await world.create(NAMES);
  assert.is(world.batch().status, 'validating');
  assert.is(await world.batches.cancel('batch_a'), true);
  await reached(world, 'cancelled');
  assert.equal(told(world), { output: [], errors: [] });
  assert.is(world.numBegun, 0);

  const second = new BatchWorld().begin();
  await halfAnswered(second);
  await second.batches.cancel('batch_a');
  const next = second.copy().begin();
  await reached(next, 'cancelled');
  assert.equal(told(next), { output: ['a'], errors: REST.map((name) => `${name} batch_cancelled`) });

  const third = new BatchWorld().begin();
  await third.create(NAMES);
  await atStatus(third, 'finalizing');
  assert.is(await third.batches.cancel('batch_a'), false);
  await reached(third, 'completed');
  assert.is(await third.batches.cancel('batch_a'), false);
  assert.equal(told(third), { output: NAMES, errors: [] });
  await third.create(['bad'], 'batch_b');
  await reached(third, 'failed', 'batch_b');
  assert.is(await third.batches.cancel('batch_b'), false);
});

test('a batch that has not ended within its window expires, with what is answered, in whatever status it is', async () => {
  const world = new BatchWorld().begin();
  await halfAnswered(world);
  world.clock.pass(windowMs - 1);
  assert.is(world.batch().status, 'in_progress');
  world.clock.pass(1);
  await reached(world, 'expired');
  assert.equal(told(world), { output: ['a'], errors: REST.map((name) => `${name} batch_expired`) });
  assert.equal(Object.keys(world.batch().reachedMs), ['in_progress', 'finalizing', 'expired']);
  assert.is(await world.batches.cancel('batch_a'), false);

  // The window ends while no process runs.
  const statuses: BatchStatus[] = ['validating', 'in_progress', 'finalizing', 'cancelling'];
  const ends: BatchStatus[] = ['expired', 'expired', 'completed', 'cancelled'];
  for (const [index, status] of statuses.entries()) {
    const before = new BatchWorld().begin();
    if (status === 'in_progress' || status === 'cancelling') await halfAnswered(before);
    else await before.create(NAMES);
    if (status === 'cancelling') await before.batches.cancel('batch_a');
    await atStatus(before, status);
    const next = before.copy();
    assert.is(next.batch().status, status);
    next.clock.pass(windowMs);
    next.begin();
    await reached(next, ends[index] as BatchStatus);
    const { output, errors } = told(next);
    assert.is(output.length + errors.length, NAMES.length, status);
  }
});

test('a batch may have a year, in which its processes need not run', async () => {
  const world = new BatchWorld().begin();
  world.reply = (_, name) => (name === 'a' ? Promise.resolve({}) : never());
  await world.create(NAMES, 'batch_a', ANONYMOUS, '365d');
  await until(PATIENCE_MS, 'A result', () => world.batch().numCompleted === 1);
  const next = world.copy();
  next.clock.pass(windows['365d'] - 1);
  next.reply = world.reply;
  next.begin();
  await until(PATIENCE_MS, 'Open lines', () => next.open.has('b') && next.open.has('c'));
  next.clock.pass(1);
  await reached(next, 'expired');
  assert.equal(told(next), { output: ['a'], errors: REST.map((name) => `${name} batch_expired`) });
});

test('a stop leaves the batch to the next process, with its results and its jobs', async () => {
  const world = new BatchWorld().begin();
  await halfAnswered(world);
  await until(PATIENCE_MS, 'A result', () => world.batch().numCompleted === 1);
  const { numBytes = 0, ...counts } = world.batches.stats ?? {};
  assert.equal(counts, { numFiles: 1, numOpen: 1, numLinesLeft: NAMES.length - 1 });
  assert.ok(
    numBytes > statSync(world.batches.files.pathOf({ id: 'file-of-batch_a' })).size,
    'and the result',
  );
  world.journal.set('batch_a-2', '{"said":"b","by":"first"}');
  await world.batches.stop();
  assert.is(world.batch().status, 'in_progress');
  assert.is(world.clock.numTimers, 0);
  const next = world.copy({ name: 'next' }).begin();
  await reached(next, 'completed');
  const by = linesOf(next, next.batch().outputFileId).map(({ response }) => response?.body.by);
  assert.equal(by, ['first', 'first', 'next', 'next', 'next']);
});

test('files of a death without a record are removed, and those that are kept count among the bounds', async () => {
  const world = new BatchWorld({ maxFileBytes: 100, maxBytes: 150 });
  const { files } = world.batches;
  const named = (id: string) => {
    return { id, owner: 'a', sharer: ANONYMOUS, filename: 'f', purpose: 'batch' } as const;
  };
  const kept = await files.begin(named('file-kept'));
  await kept.write(new Uint8Array(100));
  await kept.write(new Uint8Array(1)).then(
    () => assert.unreachable(),
    (error) => assert.is(error.code, 'file_too_large'),
  );
  await kept.keep();
  const cut = await files.begin(named('file-cut'));
  await cut.write(new Uint8Array(40));
  const next = world.copy({ maxFileBytes: 100, maxBytes: 150 });
  await cut.discard();
  assert.equal(
    next.batches.files.of(['a']).map(({ id, bytes }) => [id, bytes]),
    [['file-kept', 100]],
  );
  assert.not.ok(existsSync(next.batches.files.pathOf({ id: 'file-cut' })));
  const more = await next.batches.files.begin(named('file-more'));
  await more.write(new Uint8Array(51)).then(
    () => assert.unreachable(),
    (error) => assert.is(error.code, 'files_full'),
  );
  await more.write(new Uint8Array(50));
  await more.discard();
  assert.is(next.batches.files.find(['b'], 'file-kept'), undefined);
});

test('a damaged record is logged and stays where it is with its content, and no other is lost with it', async () => {
  const world = new BatchWorld();
  await world.create(NAMES);
  await world.create(NAMES, 'batch_b');
  const damaged = ['files/file-of-batch_b.json', 'batches/batch_b.json'].map((name) =>
    join(world.folder, name),
  );
  for (const path of damaged) writeFileSync(path, readFileSync(path, 'utf8').replace('"owner"', '"owned"'));
  const next = world.copy().begin();
  await reached(next, 'completed');
  assert.throws(() => next.batch('batch_b'));
  assert.equal(
    next.lines
      .filter(({ event }) => event === 'batch_record_damaged')
      .map(({ file }) => basename(String(file))),
    damaged.map((path) => basename(path)),
  );
  for (const path of damaged)
    assert.ok(existsSync(path.replace(world.folder, next.folder)), 'somebody may mend it');
  assert.ok(existsSync(next.batches.files.pathOf({ id: 'file-of-batch_b' })));
});

test('a line that is refused for now is sent again when the time has come, and keeps its place', async () => {
  const world = new BatchWorld().begin();
  let numRefused = 0;
  world.reply = async (_, name) =>
    name === 'b' && ++numRefused <= 2 ? { status: 503, retryAfterMs: 5000 } : {};
  await world.create(NAMES);
  await until(PATIENCE_MS, 'The first refusal', () => numRefused === 1 && world.batch().numCompleted === 4);
  world.clock.pass(4999);
  assert.is(numRefused, 1);
  world.clock.pass(1);
  await until(PATIENCE_MS, 'The second refusal', () => numRefused === 2 && world.clock.numTimers > 1);
  world.clock.pass(5000);
  await reached(world, 'completed');
  assert.equal(told(world), { output: NAMES, errors: [] });
});

test('callers take turns with their lines, whoever came first and with how many', async () => {
  const world = new BatchWorld({ maxOpenLines: 1 }).begin();
  const order: string[] = [];
  const gates: (() => void)[] = [];
  world.reply = async (_, name) => {
    order.push(name);
    await new Promise<void>((resolve) => gates.push(resolve));
    return {};
  };
  await world.create(['a1', 'a2', 'a3', 'a4'], 'batch_a', callerNamed('anna'));
  await until(PATIENCE_MS, 'The first line', () => gates.length === 1);
  await world.create(['b1', 'b2'], 'batch_b', callerNamed('bert'));
  await until(PATIENCE_MS, "A line of bert's that waits", () => world.wanted.includes('b1'));
  for (let next = gates.shift(); next !== undefined && order.length < 6; next = gates.shift()) {
    const before = order.length;
    next();
    await until(PATIENCE_MS, `Line ${before + 1}`, () => order.length > before);
  }
  assert.ok(order.indexOf('b1') < order.indexOf('a4'), order.join());
  assert.is(world.batches.find(['bert'], 'batch_a'), undefined);
  assert.equal(
    world.batches.of(['bert']).map(({ id }) => id),
    ['batch_b'],
  );
});

function bytesOf(names: readonly string[]): number {
  return names.reduce((sum, name) => sum + lineOf(name).length + 1, 0);
}

async function fillRoom(world: BatchWorld, bytes: number, caller = ANONYMOUS): Promise<StoredFile> {
  const writer = await world.batches.files.begin({
    ...{ id: `file-of-${caller.name}`, owner: caller.name, sharer: caller },
    ...{ filename: 'f', purpose: 'batch' },
  });
  await writer.write(new Uint8Array(bytes));
  return writer.keep();
}

function waits(world: BatchWorld): Promise<void> {
  return until(PATIENCE_MS, 'The wait', () => world.lines.some(({ event }) => event === 'batch_waits'));
}

test('where files take all the room, a batch begins no line, and goes on when some are deleted', async () => {
  const world = new BatchWorld({ maxBytes: 2000 }).begin();
  const names = ['a', 'b'];
  const large = await fillRoom(world, 2000 - bytesOf(names));
  await world.create(names);
  await waits(world);
  assert.match(String(world.lines.at(-1)?.msg), /--files-max-bytes 2000: delete files/);
  assert.is(world.numBegun, 0);
  await world.batches.files.delete(large);
  world.clock.pass(10_000);
  await reached(world, 'completed');
  assert.equal([told(world), world.numBegun], [{ output: names, errors: [] }, 2]);
});

test('the last result that the room is for is kept, however long it is', async () => {
  const world = new BatchWorld({ maxBytes: 2000 }).begin();
  await fillRoom(world, 1999 - bytesOf(['a']));
  await world.create(['a']);
  await reached(world, 'completed');
  assert.equal(told(world), { output: ['a'], errors: [] });
});

test('a caller whose files take all of its room stops no batch of another one', async () => {
  const world = new BatchWorld({ maxBytes: 2000, maxOpenLines: 2 }).begin();
  const [anna, bert] = [callerNamed('anna'), callerNamed('bert')];
  await fillRoom(world, 2000 - bytesOf(['a', 'b']), anna);
  await world.create(['a', 'b'], 'batch_a', anna);
  await waits(world);
  await world.create(['c', 'd', 'e'], 'batch_b', bert);
  const batchOfBert = () => world.batch('batch_b', 'bert');
  await until(PATIENCE_MS, 'The end', () => batchOfBert().status === 'completed');
  assert.is(batchOfBert().numCompleted, 3);
  assert.is(world.batch('batch_a', 'anna').status, 'in_progress');
});

test('lines of a model that takes none for hours keep no place from those of another model', async () => {
  for (const refusal of [never, async () => ({ status: 503, retryAfterMs: 5000 })]) {
    const world = new BatchWorld({ maxOpenLines: 2 }).begin();
    let numAsked = 0;
    world.reply = async (_, name) => {
      if (!name.endsWith('@slow')) return {};
      numAsked += 1;
      return refusal();
    };
    await world.create(['1@slow', '2@slow', '3@slow']);
    await until(PATIENCE_MS, 'Lines of the slow model', () => numAsked >= 2);
    await world.create(['1@fast', '2@fast', '3@fast'], 'batch_b');
    await reached(world, 'completed', 'batch_b');
    assert.is(world.batch().status, 'in_progress');
    await world.batches.cancel('batch_a');
    await reached(world, 'cancelled');
  }
});

test('lines of a caller that go on for hours leave another caller its share of the places', async () => {
  const world = new BatchWorld({ maxOpenLines: 2 }).begin();
  world.reply = (call) => (call.sharer.name === 'anna' ? never() : Promise.resolve({}));
  await world.create(['a', 'b', 'c'], 'batch_a', callerNamed('anna'));
  await until(PATIENCE_MS, 'All places', () => world.open.size === 2);
  await world.create(['d', 'e', 'f'], 'batch_b', callerNamed('bert'));
  await until(PATIENCE_MS, 'The end', () => world.batch('batch_b', 'bert').status === 'completed');
  assert.is(world.open.size, 2, 'and nobody gets more than there is');
});

test('an input that the disk does not give is read again later, and nothing is answered twice', async () => {
  const world = new BatchWorld({ maxOpenLines: 2 }).begin();
  const gates: (() => void)[] = [];
  world.reply = async () => {
    await new Promise<void>((resolve) => gates.push(resolve));
    return {};
  };
  const path = world.batches.files.pathOf({ id: 'file-of-batch_a' });
  await world.create(NAMES);
  await until(PATIENCE_MS, 'Open lines', () => gates.length === 2);
  await world.batches.stop();
  const next = world.copy({ maxOpenLines: 2 });
  const inNext = path.replace(world.folder, next.folder);
  renameSync(inNext, `${inNext}.away`);
  next.begin();
  await waits(next);
  assert.is(next.batch().status, 'in_progress');
  renameSync(`${inNext}.away`, inNext);
  next.clock.pass(10_000);
  await reached(next, 'completed');
  assert.equal([told(next), next.numBegun], [{ output: NAMES, errors: [] }, NAMES.length]);
});

test('a line that somebody has changed since it was checked has an error, and the others their answers', async () => {
  const world = new BatchWorld({ maxOpenLines: 1 }).begin();
  await halfAnswered(world, 1);
  const next = world.copy();
  const path = next.batches.files.pathOf({ id: 'file-of-batch_a' });
  writeFileSync(path, readFileSync(path, 'utf8').replace(lineOf('c'), 'nonsense'));
  next.begin();
  await reached(next, 'completed');
  const [ok, code] = [NAMES.filter((name) => name !== 'c'), ' invalid_json_line'];
  assert.equal(told(next), { output: ok, errors: [code] });
});

test('an error that nobody has foreseen costs the line its answer, and no other line', async () => {
  const world = new BatchWorld().begin();
  world.reply = async (_, name) => {
    if (name === 'c') throw new TypeError('nobody has foreseen this');
    return {};
  };
  await world.create(NAMES);
  await reached(world, 'completed');
  const others = NAMES.filter((name) => name !== 'c');
  assert.equal(told(world), { output: others, errors: ['c internal_error'] });
  assert.ok(world.lines.some(({ event }) => event === 'batch_failed'));
});

test('a batch whose input is gone can be cancelled, before it is checked and after, and keeps its answers', async () => {
  const world = new BatchWorld();
  await world.create(NAMES);
  unlinkSync(world.batches.files.pathOf({ id: 'file-of-batch_a' }));
  world.begin();
  await waits(world);
  assert.is(world.batch().status, 'validating');
  assert.is(await world.batches.cancel('batch_a'), true);
  await reached(world, 'cancelled');

  const second = new BatchWorld().begin();
  await halfAnswered(second);
  await until(PATIENCE_MS, 'A result', () => second.batch().numCompleted === 1);
  unlinkSync(second.batches.files.pathOf({ id: 'file-of-batch_a' }));
  assert.is(await second.batches.cancel('batch_a'), true);
  await reached(second, 'cancelled');
  assert.equal(told(second), { output: ['a'], errors: [] });
});

test('a file whose keeping the disk refused after its record was written is gone in the next process', async () => {
  const world = new BatchWorld();
  const { files } = world.batches;
  const file = { id: 'file-a', owner: 'a', sharer: ANONYMOUS, filename: 'f', purpose: 'batch' } as const;
  const writer = await files.begin(file);
  await writer.write(new Uint8Array(10));
  await files.keep(file, 10);
  await writer.discard();
  assert.is(world.copy().batches.files.find(['a'], 'file-a'), undefined);
});

test('a batch begins although an old one cannot be forgotten, which the next process does', async () => {
  const world = new BatchWorld();
  const record = await world.create(['a']);
  const pathOf = (id: string): string => join(world.folder, 'batches', `${id}.json`);
  for (let index = 0; index < maxKeptBatches; index += 1) {
    const old = { ...record, id: `batch_${index}`, status: 'completed', createdMs: index };
    writeFileSync(pathOf(old.id), JSON.stringify(old));
  }
  const next = world.copy();
  const oldest = pathOf('batch_0').replace(world.folder, next.folder);
  unlinkSync(oldest);
  // No file, so it is not removed as one.
  mkdirSync(oldest);
  await next.create(['a'], 'batch_more');
  await until(PATIENCE_MS, 'The refusal', () =>
    next.lines.some(({ event }) => event === 'batch_not_forgotten'),
  );
  assert.is(next.batch('batch_more').status, 'validating');
  assert.throws(() => next.batch('batch_0'));
});

test('a caller has so many unfinished batches and no more', async () => {
  const world = new BatchWorld();
  for (let index = 0; index < maxOpenBatches; index += 1) await world.create(['a'], `batch_${index}`);
  await world.create(['a'], 'batch_more').then(
    () => assert.unreachable(),
    (error) =>
      assert.match(
        error.message,
        new RegExp(`${maxOpenBatches} are the most at once: wait for the end of one`),
      ),
  );
  await world.create(['a'], 'batch_other', callerNamed('bert'));
});

test.run();
