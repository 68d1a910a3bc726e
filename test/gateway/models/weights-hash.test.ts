import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { appendFileSync, copyFileSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { loadModel } from '../../../gateway/models/model-slot.ts';
import { hashOnce, hashSteps } from '../../../gateway/models/weights-hash.ts';
import { finish } from '../../../gateway/tokenizer/tokenizer.ts';
import { TINY_MODEL } from '../../fixtures/default-model.ts';
import { errorOf } from '../../fixtures/errors.ts';
import { temporaryFolder } from '../../fixtures/temporary-folder.ts';

const test = suite('weights hash');

function sha256(bytes: string | Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}

test('a file has the hash that sha256sum prints', async () => {
  const model = await loadModel(TINY_MODEL);
  try {
    const printed = execFileSync('sha256sum', [TINY_MODEL], { encoding: 'utf8' });
    assert.is(await model.weightsHash(), `sha256:${printed.slice(0, 64)}`);
  } finally {
    model.tokenizer.close();
  }
});

test('a folder has the hash of what sha256sum prints of configuration, vocabulary and weights, whatever its template', () => {
  const { path } = temporaryFolder();
  const names = ['config.json', 'tokenizer.json', 'model.safetensors'];
  for (const name of names) writeFileSync(join(path, name), name);
  const printed = execFileSync('sha256sum', names, { cwd: path, encoding: 'utf8' });
  const expected = `sha256:${sha256(printed)}`;
  assert.is(finish(hashSteps(path)), expected);
  writeFileSync(join(path, 'chat_template.jinja'), 'another');
  assert.is(finish(hashSteps(path)), expected);
  appendFileSync(join(path, 'model.safetensors'), 'x');
  assert.is.not(finish(hashSteps(path)), expected);
  rmSync(join(path, 'tokenizer.json'));
  assert.throws(() => finish(hashSteps(path)), /a receipt needs/);
});

test('the parts of a split model count in their order', () => {
  const { path } = temporaryFolder();
  const names = ['m-00001-of-00002.gguf', 'm-00002-of-00002.gguf'];
  for (const name of names) writeFileSync(join(path, name), name);
  const printed = execFileSync('sha256sum', names, { cwd: path, encoding: 'utf8' });
  assert.is(finish(hashSteps(join(path, names[0] as string))), `sha256:${sha256(printed)}`);
});

test('a file that has changed since the model was loaded has no hash, and one that has been hashed is not read again', async () => {
  const path = join(temporaryFolder().path, 'model.gguf');
  copyFileSync(TINY_MODEL, path);
  const model = await loadModel(path);
  const again = await loadModel(path);
  try {
    assert.is(await model.weightsHash(), `sha256:${sha256(readFileSync(path))}`);
    appendFileSync(path, 'x');
    const later = await loadModel(path);
    appendFileSync(path, 'y');
    assert.match(
      (await errorOf(() => later.weightsHash())).message,
      'have changed since the model was loaded',
    );
    later.tokenizer.close();
    assert.is(await again.weightsHash(), await model.weightsHash());
  } finally {
    model.tokenizer.close();
    again.tokenizer.close();
  }
});

test('a hash that could not be made is made again when it is asked for again', async () => {
  let numAttempts = 0;
  const hash = async (): Promise<string> => {
    if (++numAttempts === 1) throw new Error('no disk');
    return 'hash';
  };
  assert.match((await errorOf(() => hashOnce('of these files', hash))).message, 'no disk');
  assert.is(await hashOnce('of these files', hash), 'hash');
  assert.is(await hashOnce('of these files', hash), 'hash');
  assert.is(numAttempts, 2);
});

test.run();
