import { chmodSync, writeFileSync } from 'node:fs';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { readApiKeys } from '../../../../gateway/config/keys-file.ts';
import { UsageError } from '../../../../gateway/errors/exit-code.ts';
import { ApiKeys, KeyFiles } from '../../../../gateway/server/guard/api-keys.ts';
import { errorOf } from '../../../fixtures/errors.ts';
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
  const keys = new ApiKeys(['correct-horse-battery', 'another-key-of-some-length']);
  assert.is(keys.rightOf('correct-horse-battery'), 'client');
  assert.is(keys.rightOf('another-key-of-some-length'), 'client');
  for (const wrong of ['', 'correct-horse-batter', 'correct-horse-battery ', 'Correct-horse-battery']) {
    assert.is(keys.rightOf(wrong), undefined, wrong);
  }
});

test('an admin key is one of the other list; a key that is on both is an admin’s', () => {
  const keys = new ApiKeys(
    ['a-key-of-a-client', 'a-key-of-both-lists'],
    ['a-key-of-an-admin', 'a-key-of-both-lists'],
  );
  assert.is(keys.rightOf('a-key-of-a-client'), 'client');
  assert.is(keys.rightOf('a-key-of-an-admin'), 'admin');
  assert.is(keys.rightOf('a-key-of-both-lists'), 'admin');
  assert.is(new ApiKeys(['a-key-of-a-client']).rightOf('a-key-of-an-admin'), undefined);
});

test('a keys file has a key a line, comments and empty lines', () => {
  const keys = readApiKeys(keysFile('# for the team\n\nfirst-key-0123456789\r\n  second-key-0123456789  '));
  assert.equal(keys, ['first-key-0123456789', 'second-key-0123456789']);
});

test('keys are read again from their files, all of them or none', async () => {
  const clients = keysFile('first-key-0123456789');
  const admins = keysFile('admin-key-0123456789');
  const keys = new KeyFiles({ clients, admins });
  const rights = () =>
    ['first-key-0123456789', 'second-key-0123456789', 'admin-key-0123456789', 'admin-key-2-0123456789'].map(
      (key) => keys.rightOf(key) ?? 'none',
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
    const error = await errorOf(() => readApiKeys(path));
    assert.instance(error, UsageError);
    assert.match(error.message, `mode ${mode.toString(8)}`);
    assert.match(error.message, `chmod 600 ${path}`);
  }
  readApiKeys(keysFile('first-key-0123456789', 0o400));
});

test('systemd’s credential may be its service’s as well, and nobody else’s', async () => {
  process.env.CREDENTIALS_DIRECTORY = folder.path;
  try {
    readApiKeys(keysFile('first-key-0123456789', 0o440));
    for (const mode of [0o444, 0o460, 0o660])
      assert.instance(await errorOf(() => readApiKeys(keysFile('first-key-0123456789', mode))), UsageError);
  } finally {
    delete process.env.CREDENTIALS_DIRECTORY;
  }
});

test('a line that is no key is named by its number and not repeated', async () => {
  const wrong = ['short', 'x'.repeat(257), 'two words are no key here', 'schlüssel-schlüssel-schlüssel'];
  for (const line of wrong) {
    const path = keysFile(`first-key-0123456789\n${line}\n`);
    const error = await errorOf(() => readApiKeys(path));
    assert.instance(error, UsageError);
    assert.match(error.message, `Line 2 of the keys file ${path}`);
    assert.not.match(error.message, line);
  }
  readApiKeys(keysFile(`${'x'.repeat(16)}\n${'y'.repeat(256)}`));
});

test('a file without a key, a folder and a missing file are refused', async () => {
  assert.match((await errorOf(() => readApiKeys(keysFile('# none\n')))).message, 'has no key');
  assert.match((await errorOf(() => readApiKeys(folder.path))).message, 'is not a regular file');
  const absent = await errorOf(() => readApiKeys('/nowhere/keys'));
  assert.is((absent as NodeJS.ErrnoException).code, 'ENOENT');
});

test.run();
