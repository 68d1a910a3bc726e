import { chmodSync } from 'node:fs';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { ApiKeys, readApiKeys } from '../../../gateway/guard/api-keys.ts';
import { UsageError } from '../../../gateway/ops/exit-code.ts';
import { errorOf } from '../../fixtures/errors.ts';
import { temporaryFolder } from '../../fixtures/temporary-folder.ts';

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
  assert.ok(keys.has('correct-horse-battery'));
  assert.ok(keys.has('another-key-of-some-length'));
  for (const wrong of ['', 'correct-horse-batter', 'correct-horse-battery ', 'Correct-horse-battery']) {
    assert.not(keys.has(wrong), wrong);
  }
});

test('a keys file has a key a line, comments and empty lines', () => {
  const keys = readApiKeys(keysFile('# for the team\n\nfirst-key-0123456789\r\n  second-key-0123456789  '));
  assert.ok(keys.has('first-key-0123456789'));
  assert.ok(keys.has('second-key-0123456789'));
  assert.not(keys.has('# for the team'));
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
