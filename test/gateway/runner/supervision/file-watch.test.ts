import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { modelIdentity } from '../../../../gateway/models/model-slot.ts';
import { watchFiles } from '../../../../gateway/runner/supervision/file-watch.ts';
import type { Timer } from '../../../../gateway/system/clock.ts';
import { PATIENCE_MS, within } from '../../../fixtures/within.ts';

const directory = mkdtempSync(join(tmpdir(), 'runnel-file-watch-'));
const path = join(directory, 'model.gguf');

function changeOf(before: Promise<string>) {
  let watch: Timer | undefined;
  const changed = new Promise<void>((resolve) => {
    watch = watchFiles(() => modelIdentity(path), before, 2, resolve);
  });
  return { changed: within(PATIENCE_MS, 'the notice of a change', changed), stop: () => watch?.cancel() };
}

const fileWatch = suite('file watch');

fileWatch.after(() => rmSync(directory, { recursive: true }));

fileWatch('sees a file come, grow, be replaced and go', async () => {
  const changes = [
    () => writeFileSync(path, 'a'),
    () => writeFileSync(path, 'ab'),
    () => {
      writeFileSync(`${path}.new`, 'ab');
      renameSync(`${path}.new`, path);
    },
    () => rmSync(path),
  ];
  for (const change of changes) {
    const before = await modelIdentity(path);
    const { changed } = changeOf(Promise.resolve(before));
    change();
    await changed;
  }
});

fileWatch('sees a change that came before it began to look', async () => {
  const before = modelIdentity(path);
  await before;
  writeFileSync(path, 'later');
  await changeOf(before).changed;
});

fileWatch('is silent without a change, and when it is stopped', async () => {
  let numChanges = 0;
  const before = modelIdentity(path);
  const silent = watchFiles(
    () => modelIdentity(path),
    before,
    1,
    () => {
      numChanges += 1;
    },
  );
  // Another watch at the same pace shows that enough time has passed for a check.
  const { changed } = changeOf(Promise.resolve('something else'));
  await changed;
  assert.is(numChanges, 0);
  silent.cancel();
  writeFileSync(path, 'too late');
  await changeOf(before).changed;
  assert.is(numChanges, 0);
});

fileWatch.run();
