import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { NotifyPipe } from '../../../gateway/systemd/notify-pipe.ts';
import { createLog } from '../../../gateway/telemetry/log.ts';
import { NotifySocket } from '../../fixtures/notify-socket.ts';
import { temporaryFolder } from '../../fixtures/temporary-folder.ts';
import { PATIENCE_MS, until } from '../../fixtures/within.ts';

const test = suite('notify pipe');

test('unread messages queue up to a bound; later ones are dropped, logged once', async () => {
  const socket = await NotifySocket.open(join(temporaryFolder().path, 'notify'));
  const lines: string[] = [];
  const log = createLog('debug', undefined, { write: (line) => lines.push(line) });
  const pipe = new NotifyPipe({ socket: socket.name, log, onReplaced: () => assert.unreachable('it lives') });
  const helper = pipe.pid ?? 0;
  try {
    pipe.send('FIRST=1');
    await socket.awaits('FIRST=1');
    process.kill(helper, 'SIGSTOP');
    for (let i = 0; i < 1000; i++) pipe.send(`X_FILLER=${'x'.repeat(4000)}`);
    assert.is(lines.length, 1);
    assert.match(
      lines[0] ?? '',
      'systemd does not read the messages of this gateway; further messages are dropped until it does.',
    );
  } finally {
    process.kill(helper, 'SIGCONT');
  }
  await until(PATIENCE_MS, 'Messages again', () => {
    pipe.send('LAST=1');
    return socket.texts.includes('LAST=1');
  });
  const numFillers = socket.texts.filter((text) => text.startsWith('X_FILLER=')).length;
  assert.ok(numFillers > 0 && numFillers < 500, `${numFillers}`);
  pipe.close();
  socket.close();
});

test.run();
