import { setTimeout as elapsed } from 'node:timers/promises';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { ExitCode } from '../../../gateway/errors/exit-code.ts';
import { endSignal, sameSignalMs } from '../../../gateway/system/end-signal.ts';

const test = suite('end signal');
const { exit } = process;

test.after.each(() => {
  process.exit = exit;
  for (const signal of ['SIGTERM', 'SIGINT']) process.removeAllListeners(signal);
});

test('a signal that comes twice at once is one; one that comes later ends the process at once', async () => {
  const statuses: unknown[] = [];
  process.exit = ((status) => statuses.push(status)) as typeof process.exit;
  const end = endSignal();
  process.emit('SIGINT');
  process.emit('SIGINT');
  process.emit('SIGTERM');
  assert.is(await end, 'SIGINT');
  assert.equal(statuses, []);
  await elapsed(sameSignalMs);
  process.emit('SIGTERM');
  assert.equal(statuses, [ExitCode.internal]);
});

test.run();
