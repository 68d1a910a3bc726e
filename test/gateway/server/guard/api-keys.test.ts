import { chmodSync, writeFileSync } from 'node:fs';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { readKeysFile } from '../../../../gateway/config/keys-file.ts';
import { UsageError } from '../../../../gateway/errors/exit-code.ts';
import { KeyFiles } from '../../../../gateway/server/guard/api-keys.ts';
import { errorOf } from '../../../fixtures/errors.ts';
import { keysOf } from '../../../fixtures/keys.ts';
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

test('a keys file has a key a line, comments and empty lines', () => {
  const lines = readKeysFile(keysFile('# for the team\n\nfirst-key-0123456789\r\n  second-key-0123456789  '));
  assert.equal(
    lines.map(({ key, caller }) => [key, caller.name, caller.shares]),
    [
      ['first-key-0123456789', 'key-3', 1],
      ['second-key-0123456789', 'key-4', 1],
    ],
  );
});

test('a key’s line may give its caller a name, shares and quotas, all optional', () => {
  const path = keysFile(
    'first-key-0123456789 name=batch shares=3\nsecond-key-0123456789\tshares=2\nthird-key-0123456789  name=b max-body-bytes=9 max-open-requests=8 max-queued-tokens=7',
  );
  assert.equal(
    readKeysFile(path, 'admin').map(({ caller }) => caller),
    [
      { name: 'batch', shares: 3 },
      { name: 'admin-2', shares: 2 },
      { name: 'b', shares: 1, quotas: { openRequests: 8, queuedTokens: 7, bodyBytes: 9 } },
    ],
  );
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

test('a fault after a key is refused with its line and what to write, and never its text', async () => {
  const fields =
    'After a key come fields NAME=VALUE, separated by spaces: name, shares, max-open-requests, max-queued-tokens, max-body-bytes.';
  const cases: [rest: string, fault: string][] = [
    ['name=team secret-0123456789', `: word 3 is not a field of a key. ${fields}`],
    ['weight=2', `: word 2 is not a field of a key. ${fields}`],
    ['__proto__=2', `: word 2 is not a field of a key. ${fields}`],
    ['shares=2 shares=3', ' has "shares" twice; keep one of them.'],
    ['shares=0', ': shares must be a whole number from 1 on.'],
    ['shares=1001', ': shares must be at most 1000.'],
    ['shares=secret-0123456789', ': shares must be a whole number from 1 on.'],
    ['name=', ': name must be 1 to 64 letters, digits, dots, underscores and hyphens.'],
    ['name=key-1', ': name is reserved: choose one other than "anonymous", "key-N" and "admin-N".'],
  ];
  for (const [rest, fault] of cases) {
    const path = keysFile(`# keys\nfirst-key-0123456789 ${rest}`);
    const { message } = await errorOf(() => readKeysFile(path));
    assert.is(message, `Line 2 of the keys file ${path}${fault}`);
    assert.not.match(message, /first-key|secret/);
  }
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

test('a line that is no key is named by its number and not repeated', async () => {
  const wrong = ['short', 'x'.repeat(257), 'two words are no key here', 'schlüssel-schlüssel-schlüssel'];
  for (const line of wrong) {
    const path = keysFile(`first-key-0123456789\n${line}\n`);
    const error = await errorOf(() => readKeysFile(path));
    assert.instance(error, UsageError);
    assert.match(error.message, `Line 2 of the keys file ${path}`);
    assert.not.match(error.message, line);
  }
  readKeysFile(keysFile(`${'x'.repeat(16)}\n${'y'.repeat(256)}`));
});

test('a file without a key, a folder and a missing file are refused', async () => {
  assert.match((await errorOf(() => readKeysFile(keysFile('# none\n')))).message, 'has no key');
  assert.match((await errorOf(() => readKeysFile(folder.path))).message, 'is not a regular file');
  const absent = await errorOf(() => readKeysFile('/nowhere/keys'));
  assert.is((absent as NodeJS.ErrnoException).code, 'ENOENT');
});

test.run();
