import { chmodSync, writeFileSync } from 'node:fs';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { announced, reloadKeys } from '../../../gateway/cli/reload.ts';
import { KeyFiles } from '../../../gateway/server/guard/api-keys.ts';
import type { Notifier } from '../../../gateway/systemd/notifier.ts';
import { createLog } from '../../../gateway/telemetry/log.ts';
import { errorOf } from '../../fixtures/errors.ts';
import { temporaryFolder } from '../../fixtures/temporary-folder.ts';

const test = suite('reload');
const folder = temporaryFolder();

interface Line {
  readonly level: string;
  readonly event: string;
  readonly msg?: string;
}

function logOf() {
  const lines: Line[] = [];
  return {
    lines,
    log: createLog('debug', undefined, { write: (line) => void lines.push(JSON.parse(line)) }),
  };
}

test('unreadable keys leave the old ones in place, and no key is logged', () => {
  const { lines, log } = logOf();
  const path = folder.write('keys', 'first-key-0123456789');
  chmodSync(path, 0o600);
  const keys = new KeyFiles({ clients: path, admins: undefined });
  chmodSync(path, 0o644);
  writeFileSync(path, 'second-key-0123456789');
  reloadKeys(keys, log);
  assert.is(keys.holderOf('first-key-0123456789')?.right, 'client');
  assert.is(keys.holderOf('second-key-0123456789')?.right, undefined);
  chmodSync(path, 0o600);
  reloadKeys(keys, log);
  assert.is(keys.holderOf('first-key-0123456789')?.right, undefined);
  assert.is(keys.holderOf('second-key-0123456789')?.right, 'client');
  assert.equal(
    lines.map(({ level, event }) => `${level} ${event}`),
    ['error keys_unusable', 'info keys_reloaded'],
  );
  assert.match(lines[0]?.msg ?? '', `chmod 600 ${path}`);
  assert.match(lines[0]?.msg ?? '', 'The keys read before stay valid.');
  for (const line of lines) assert.not.match(JSON.stringify(line), /-key-0123456789/);
  reloadKeys(undefined, log);
  assert.is(lines.length, 2);
});

test('systemd hears of the beginning and the end of a reload, however it ends', async () => {
  const told: string[] = [];
  const notifier = {
    reloading() {
      told.push('begin');
      return () => void told.push('end');
    },
  } as unknown as Notifier;
  assert.is(await announced(notifier, async () => void told.push('reload')), undefined);
  assert.is(
    (await errorOf(() => announced(notifier, () => Promise.reject(new Error('later'))))).message,
    'later',
  );
  const thrown = await errorOf(() =>
    announced(notifier, () => {
      throw new Error('at once');
    }),
  );
  assert.is(thrown.message, 'at once');
  assert.is(told.join(' '), 'begin reload end begin end begin end');
  assert.is(await announced(undefined, async () => 'done'), 'done');
});

test.run();
