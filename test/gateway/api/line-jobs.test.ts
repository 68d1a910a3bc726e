import * as assert from 'uvu/assert';
import { Batches } from '../../../gateway/batches/batches.ts';
import { JournalStore } from '../../../gateway/journal/store.ts';
import { ANONYMOUS } from '../../../gateway/system/caller.ts';
import { systemClock } from '../../../gateway/system/clock.ts';
import { createLog } from '../../../gateway/telemetry/log.ts';
import { EOS_ID } from '../../fixtures/byte-model.ts';
import { closingSuite } from '../../fixtures/closing-suite.ts';
import { durableApp, journalFolder } from '../../fixtures/durable.ts';
import { until, within } from '../../fixtures/within.ts';

/** The jobs of lines in the journal. */

const PATIENCE_MS = 10_000;

const test = closingSuite('jobs of lines');

test('a batch ends, although the disk does not let the job of its line be forgotten', async () => {
  const folder = journalFolder();
  const bounds = { maxFileBytes: 2 ** 20, maxBytes: 2 ** 24, maxOpenLines: 2, maxLineBytes: 2 ** 16 };
  const batches = new Batches({ ...bounds, log: createLog('silent'), clock: systemClock, now: Date.now });
  batches.open(`${folder}-batches`);
  const failures: unknown[] = [];
  const { runner } = await durableApp(folder, { batches, onFailed: (error) => failures.push(error) });
  runner.script = [[72, EOS_ID]];
  const owner = { owner: '', sharer: ANONYMOUS };
  const writer = await batches.files.begin({ ...owner, id: 'file-a', filename: 'f', purpose: 'batch' });
  const line = {
    custom_id: 'a',
    method: 'POST',
    url: '/v1/completions',
    body: { model: 'bytes', prompt: 'Hi' },
  };
  await writer.write(Buffer.from(`${JSON.stringify(line)}\n`));
  await writer.keep();
  const batch = {
    ...owner,
    id: 'batch_a',
    cacheSalt: '',
    inputFileId: 'file-a',
    metadata: null,
    window: '24h' as const,
  };
  const { remove } = JournalStore.prototype;
  JournalStore.prototype.remove = async () => {
    throw new Error('No space left on device.');
  };
  try {
    await batches.create({ ...batch, endpoint: '/v1/completions' });
    const now = () => batches.find([''], 'batch_a');
    await until(PATIENCE_MS, 'The end of the batch', () => now()?.status === 'completed');
    assert.equal([now()?.numCompleted, failures.length], [1, 1]);
    await within(PATIENCE_MS, 'The stop', batches.stop());
  } finally {
    JournalStore.prototype.remove = remove;
  }
});

test.run();
