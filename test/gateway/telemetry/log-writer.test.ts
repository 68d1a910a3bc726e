import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { closeSync, constants, openSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { LogWriter, maxWaitingBytes } from '../../../gateway/telemetry/log.ts';
import { programFile } from '../../fixtures/programs.ts';
import { temporaryFolder } from '../../fixtures/temporary-folder.ts';
import { PATIENCE_MS, until, within } from '../../fixtures/within.ts';

/** A writer to a reader that takes `room.bytes` bytes, and no more until the test adds room. */
function writerTo(room: { bytes: number }) {
  let taken = '';
  const writer = new LogWriter((bytes) => {
    if (room.bytes === 0) throw Object.assign(new Error('write EAGAIN'), { code: 'EAGAIN' });
    const part = bytes.subarray(0, room.bytes);
    room.bytes -= part.length;
    taken += Buffer.from(part).toString();
    return part.length;
  });
  return { writer, taken: () => taken };
}

const test = suite('log writer');

const folder = temporaryFolder();
const children: ChildProcess[] = [];

test.after.each(() => {
  for (const child of children.splice(0)) child.kill('SIGKILL');
});

test('a line is written before the call returns, where there is room', () => {
  const { writer, taken } = writerTo({ bytes: 100 });
  writer.write('one\n');
  assert.is(taken(), 'one\n');
});

test('lines that do not fit wait, and come whole and in order', async () => {
  const room = { bytes: 6 };
  const { writer, taken } = writerTo(room);
  for (const line of ['one\n', 'two\n', 'three\n']) writer.write(line);
  assert.is(taken(), 'one\ntw');
  room.bytes = 100;
  writer.write('four\n');
  await until(PATIENCE_MS, 'the rest', () => taken() === 'one\ntwo\nthree\nfour\n');
});

test('lines beyond the bound are dropped, and their number is logged later', async () => {
  const room = { bytes: 0 };
  const { writer, taken } = writerTo(room);
  const dropped: number[] = [];
  writer.onDropped = (count) => dropped.push(count);
  const line = `${'x'.repeat(1023)}\n`;
  const fitting = maxWaitingBytes / line.length;
  for (let index = 0; index < fitting + 7; index += 1) writer.write(line);
  assert.equal(dropped, []);
  room.bytes = 2 * maxWaitingBytes;
  await until(PATIENCE_MS, 'the report', () => dropped.length > 0);
  assert.equal([dropped, taken().length], [[7], maxWaitingBytes]);
});

test('a reader that has left costs nothing', () => {
  const writer = new LogWriter(() => {
    throw Object.assign(new Error('write EPIPE'), { code: 'EPIPE' });
  });
  for (let index = 0; index < 10; index += 1) writer.write('nobody reads this\n');
  writer.flush();
});

interface Flood {
  readonly child: ChildProcess;
  /** Settles when it has logged everything. */
  readonly logged: Promise<unknown>;
  readonly exited: Promise<unknown>;
}

/** stderr: a pipe of Node's, which is a socket, or this descriptor. */
function flood(stderr: 'pipe' | number, ...args: string[]): Flood {
  const child = spawn(process.execPath, [programFile('log-flood'), ...args], {
    stdio: ['pipe', 'pipe', stderr],
  });
  children.push(child);
  const exited = new Promise((resolve) => child.once('exit', resolve));
  const logged = new Promise((resolve, reject) => {
    createInterface(child.stdout as Readable).once('line', resolve);
    child.once('exit', (code) => reject(new Error(`It exited with ${code}.`)));
  });
  return { child, logged, exited };
}

async function endOf({ child, exited }: Flood): Promise<void> {
  child.stdin?.write('x');
  assert.is(await within(PATIENCE_MS, 'The exit', exited), 0);
}

test('a gateway whose log is read late continues and reports dropped lines', async () => {
  const writing = flood('pipe');
  await within(PATIENCE_MS, 'The end of logging, with nobody reading', writing.logged);
  let log = '';
  writing.child.stderr?.on('data', (chunk: Buffer) => (log += chunk.toString()));
  await until(PATIENCE_MS, 'The report', () => log.includes('log_lines_dropped'));
  await endOf(writing);
  await until(PATIENCE_MS, 'The last line', () => log.includes('"event":"stopped"'));
  const lines = log
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));
  const dropped = lines.find(({ event }) => event === 'log_lines_dropped')?.count;
  assert.is(lines.filter(({ event }) => event === 'request').length + dropped, 20_000);
});

test('a gateway whose log is never read continues and ends in bounded time', async () => {
  const writing = flood('pipe');
  await within(PATIENCE_MS, 'The end of logging, with nobody reading', writing.logged);
  await endOf(writing);
});

test('a gateway whose log shares its pipe ends in bounded time too', async () => {
  const path = join(folder.path, 'stderr');
  execFileSync('mkfifo', [path]);
  // Opened for both directions, so that opening does not wait for a reader. Nothing is read.
  const fd = openSync(path, constants.O_RDWR);
  const writing = flood(fd, '--share');
  await within(PATIENCE_MS, 'The end of logging, with nobody reading', writing.logged);
  await endOf(writing);
  closeSync(fd);
});

test.run();
