import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { LogWriter, maxWaitingBytes, retryMs } from '../../../gateway/ops/log-writer.ts';
import { until, within } from '../../fixtures/within.ts';

/** A writer to somebody who takes so many bytes, and no more until there is room again. */
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

test('a line is written before the call returns, where there is room', () => {
  const { writer, taken } = writerTo({ bytes: 100 });
  writer.write('one\n');
  assert.is(taken(), 'one\n');
});

test('what finds no room waits, and comes in order and whole', async () => {
  const room = { bytes: 6 };
  const { writer, taken } = writerTo(room);
  for (const line of ['one\n', 'two\n', 'three\n']) writer.write(line);
  assert.is(taken(), 'one\ntw');
  room.bytes = 100;
  writer.write('four\n');
  await until(50 * retryMs + 5000, 'the rest', () => taken() === 'one\ntwo\nthree\nfour\n');
});

test('beyond the bound lines are dropped, and their number is said when there is room again', async () => {
  const room = { bytes: 0 };
  const { writer, taken } = writerTo(room);
  const dropped: number[] = [];
  writer.onDropped = (count) => dropped.push(count);
  const line = `${'x'.repeat(1023)}\n`;
  const fitting = maxWaitingBytes / line.length;
  for (let index = 0; index < fitting + 7; index += 1) writer.write(line);
  assert.equal(dropped, []);
  room.bytes = 2 * maxWaitingBytes;
  await until(5000, 'the report', () => dropped.length > 0);
  assert.equal([dropped, taken().length], [[7], maxWaitingBytes]);
});

test('a reader that has gone costs nothing', () => {
  const writer = new LogWriter(() => {
    throw Object.assign(new Error('write EPIPE'), { code: 'EPIPE' });
  });
  for (let index = 0; index < 10; index += 1) writer.write('nobody reads this\n');
  writer.flush();
});

const program = `
  import { createLog } from ${JSON.stringify(fileURLToPath(new URL('../../../gateway/ops/log.ts', import.meta.url)))};
  const log = createLog('info');
  for (let index = 0; index < 20_000; index += 1) log.info({ event: 'x', index, msg: 'x'.repeat(200) });
  console.log('logged');
  process.stdin.once('data', () => { log.info({ event: 'last' }); process.exit(0); });
`;

test('a gateway whose log nobody reads goes on, says what it dropped, and ends in bounded time', async () => {
  for (const isRead of [true, false]) {
    const args = ['--import', 'tsx', '--input-type=module', '-e', program];
    const child = spawn(process.execPath, args, { stdio: 'pipe' });
    const exited = new Promise<number | null>((resolve) => child.once('exit', resolve));
    const logged = new Promise((resolve, reject) => {
      createInterface(child.stdout).once('line', resolve);
      child.once('exit', (code) => reject(new Error(`It exited with ${code}: ${child.stderr.read()}`)));
    });
    await within(30_000, 'the end of logging, with nobody reading', logged);
    let log = '';
    const read = () => child.stderr.on('data', (chunk: Buffer) => (log += chunk.toString()));
    if (isRead) {
      read();
      await within(
        30_000,
        'the report',
        until(30_000, 'the report', () => log.includes('log_lines_dropped')),
      );
    }
    child.stdin.write('x');
    assert.is(await within(30_000, 'the exit', exited), 0);
    if (!isRead) continue;
    await until(30_000, 'the last line', () => log.includes('"event":"last"'));
    const lines = log
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line));
    const dropped = lines.find(({ event }) => event === 'log_lines_dropped')?.count;
    assert.is(lines.filter(({ event }) => event === 'x').length + dropped, 20_000);
  }
});

test.run();
