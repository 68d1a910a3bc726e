import { chmodSync, writeFileSync } from 'node:fs';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { readKeysFile } from '../../../../gateway/config/keys-file.ts';
import { UsageError } from '../../../../gateway/errors/exit-code.ts';
import { KeyFiles } from '../../../../gateway/server/guard/api-keys.ts';
import { errorOf } from '../../../fixtures/errors.ts';
import { keysOf } from '../../../fixtures/keys.ts';
import { recordedCases } from '../../../fixtures/recorded-cases.ts';
import { temporaryFolder } from '../../../fixtures/temporary-folder.ts';

const test = suite('api keys');
const folder = temporaryFolder();
let files = 0;

function keysFile(text: string, mode = 0o600): string {
  const path = folder.write(`keys-${files++}`, text);
  chmodSync(path, mode);
  return path;
}

test('a key is one of the list, whole and exact', () => {
  const keys = keysOf(['correct-horse-battery', 'another-key-of-some-length']);
  assert.is(keys.holderOf('correct-horse-battery')?.right, 'client');
  assert.is(keys.holderOf('another-key-of-some-length')?.right, 'client');
  for (const wrong of ['', 'correct-horse-batter', 'correct-horse-battery ', 'Correct-horse-battery']) {
    assert.is(keys.holderOf(wrong)?.right, undefined, wrong);
  }
});

test('an admin key is one of the other list; a key that is on both is an admin’s', () => {
  const keys = keysOf(
    ['a-key-of-a-client', 'a-key-of-both-lists'],
    ['a-key-of-an-admin', 'a-key-of-both-lists'],
  );
  assert.is(keys.holderOf('a-key-of-a-client')?.right, 'client');
  assert.is(keys.holderOf('a-key-of-an-admin')?.right, 'admin');
  assert.is(keys.holderOf('a-key-of-both-lists')?.right, 'admin');
  assert.is(keysOf(['a-key-of-a-client']).holderOf('a-key-of-an-admin'), undefined);
});

test('several keys may be one caller’s, if each line says the same of it', async () => {
  const line = (key: string, rest: string) => `${key}-key-0123456789 ${rest}`;
  const same = keysFile([line('old', 'name=team shares=2'), line('new', 'shares=2 name=team')].join('\n'));
  const keys = new KeyFiles({ clients: same, admins: undefined });
  assert.is(keys.holderOf('old-key-0123456789')?.caller.name, 'team');
  assert.is(keys.holderOf('new-key-0123456789')?.caller.name, 'team');
  const admins = keysFile(line('admin', 'name=team'));
  const { message } = await errorOf(() => new KeyFiles({ clients: same, admins }));
  assert.is(
    message,
    `Line 1 of the keys file ${admins} gives the caller "team" other shares or quotas than line 1 of the keys file ${same}; give both lines the same.`,
  );
});

test('keys are read again from their files, all of them or none', async () => {
  const clients = keysFile('first-key-0123456789');
  const admins = keysFile('admin-key-0123456789');
  const keys = new KeyFiles({ clients, admins });
  const rights = () =>
    ['first-key-0123456789', 'second-key-0123456789', 'admin-key-0123456789', 'admin-key-2-0123456789'].map(
      (key) => keys.holderOf(key)?.right ?? 'none',
    );
  assert.equal(rights(), ['client', 'none', 'admin', 'none']);
  writeFileSync(clients, 'second-key-0123456789');
  assert.equal(rights(), ['client', 'none', 'admin', 'none'], 'not before it is asked for');
  writeFileSync(admins, 'short');
  assert.match((await errorOf(() => keys.readAgain())).message, 'Line 1 of the keys file');
  assert.equal(
    rights(),
    ['client', 'none', 'admin', 'none'],
    'the old ones count, also of the file that is good',
  );
  writeFileSync(admins, 'admin-key-2-0123456789');
  const { numClients, numAdmins } = keys.readAgain();
  assert.equal([numClients, numAdmins], [1, 1]);
  assert.equal(rights(), ['none', 'client', 'none', 'admin']);
});

test('a keys file that others may read is refused with the line that mends it', async () => {
  for (const mode of [0o644, 0o640, 0o604, 0o660, 0o606]) {
    const path = keysFile('first-key-0123456789', mode);
    const error = await errorOf(() => readKeysFile(path));
    assert.instance(error, UsageError);
    assert.match(error.message, `mode ${mode.toString(8)}`);
    assert.match(error.message, `chmod 600 ${path}`);
  }
  readKeysFile(keysFile('first-key-0123456789', 0o400));
});

test('systemd’s credential may be its service’s as well, and nobody else’s', async () => {
  process.env.CREDENTIALS_DIRECTORY = folder.path;
  try {
    readKeysFile(keysFile('first-key-0123456789', 0o440));
    for (const mode of [0o444, 0o460, 0o660])
      assert.instance(await errorOf(() => readKeysFile(keysFile('first-key-0123456789', mode))), UsageError);
  } finally {
    delete process.env.CREDENTIALS_DIRECTORY;
  }
});

recordedCases(test, import.meta.url, (text) => {
  const signs = new Map([...'⏎␍⇥'].map((sign, at) => [sign, '\n\r\t'[at]]));
  const path = keysFile(text.replace(/[⏎␍⇥]/g, (sign) => signs.get(sign) ?? ''));
  try {
    const lines = readKeysFile(path);
    return lines.map(({ key, caller }) => `${key.slice(0, 24)} ${JSON.stringify(caller)}`).join('\n');
  } catch (error) {
    assert.instance(error, UsageError);
    return (error as UsageError).message.replaceAll(path, 'PATH');
  }
});

test('keys of operators that have no name are counted apart', () => {
  const callers = readKeysFile(keysFile('first-key-0123456789 shares=2'), 'admin').map(
    ({ caller }) => caller,
  );
  assert.equal(callers, [{ name: 'admin-1', shares: 2 }]);
});

test('a folder and a missing file are refused', async () => {
  assert.match((await errorOf(() => readKeysFile(folder.path))).message, 'is not a regular file');
  const absent = await errorOf(() => readKeysFile('/nowhere/keys'));
  assert.is((absent as NodeJS.ErrnoException).code, 'ENOENT');
});

test.run();
