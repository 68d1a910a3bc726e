import { cpSync, mkdirSync, renameSync, rmSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { ModelSlot, modelIdentity } from '../../../gateway/models/model-slot.ts';
import { temporaryFolder } from '../../fixtures/temporary-folder.ts';

const test = suite('model identity');
const folder = temporaryFolder();

/** Whether the model at the path has another identity after the change. */
async function changes(path: string, change: () => void): Promise<boolean> {
  const before = await modelIdentity(path);
  change();
  return (await modelIdentity(path)) !== before;
}

function replace(path: string): void {
  writeFileSync(`${path}.new`, 'x');
  renameSync(`${path}.new`, path);
}

test('any part of a split file that is replaced, cut, touched or gone makes another model', async () => {
  const pathOf = (part: number) => join(folder.path, `m-0000${part}-of-00003.gguf`);
  for (const part of [1, 2, 3]) writeFileSync(pathOf(part), 'part');
  const path = pathOf(1);
  assert.not(await changes(path, () => {}));
  for (const part of [1, 2, 3]) {
    assert.ok(await changes(path, () => replace(pathOf(part))), `part ${part} replaced`);
    assert.ok(await changes(path, () => writeFileSync(pathOf(part), 'longer')), `part ${part} longer`);
    assert.ok(await changes(path, () => utimesSync(pathOf(part), 1, 1)), `part ${part} touched`);
    assert.ok(await changes(path, () => rmSync(pathOf(part))), `part ${part} gone`);
    assert.ok(await changes(path, () => writeFileSync(pathOf(part), 'back')), `part ${part} back`);
  }
  assert.not(await changes(path, () => writeFileSync(join(folder.path, 'm-00004-of-00003.gguf'), '')));
});

test('changing any file of a folder, also through links, changes the identity', async () => {
  const path = join(folder.path, 'outer', 'model');
  mkdirSync(path, { recursive: true });
  const files = [
    'config.json',
    'tokenizer.json',
    'model.safetensors.index.json',
    'model-00002-of-00002.safetensors',
  ];
  for (const name of files) writeFileSync(join(path, name), 'x');
  const blob = join(folder.path, 'blob');
  writeFileSync(blob, 'x');
  symlinkSync(blob, join(path, 'model-00001-of-00002.safetensors'));
  mkdirSync(join(path, '1_Pooling'));
  const optional = ['generation_config.json', 'tokenizer_config.json', 'chat_template.jinja', 'modules.json'];
  for (const name of [...files, ...optional, '1_Pooling/config.json'])
    assert.ok(await changes(path, () => replace(join(path, name))), name);
  assert.ok(await changes(path, () => replace(blob)));
  assert.ok(await changes(path, () => replace(join(folder.path, 'outer', 'tokenizer.json'))));
  assert.not(await changes(path, () => writeFileSync(join(path, 'README.md'), 'x')));
  assert.ok(await changes(path, () => rmSync(path, { recursive: true })));
});

test('a path that is that of no model has an identity', async () => {
  for (const path of [
    '/nonexistent',
    join(folder.path, 'm-00002-of-00003.gguf'),
    join(folder.path, 'm-00001-of-99999.gguf'),
  ])
    assert.type(await modelIdentity(path), 'string');
});

test('a slot reads a folder again whose tokenizer has changed and whose weights have not', async () => {
  const path = join(folder.path, 'served');
  cpSync('test/golden/models/qwen2', path, { recursive: true });
  const slot = new ModelSlot(path);
  await slot.refresh();
  assert.ok(await slot.holds(path));
  const before = slot.current;
  await slot.refresh();
  assert.is(slot.current, before);
  replaceContents(join(path, 'tokenizer_config.json'), '{"chat_template": "other"}');
  assert.not(await slot.holds(path));
  await slot.refresh();
  assert.is.not(slot.current, before);
  assert.is(slot.current?.file, before?.file);
  slot.close();
});

function replaceContents(path: string, text: string): void {
  writeFileSync(`${path}.new`, text);
  renameSync(`${path}.new`, path);
}

test.run();
