import * as assert from 'uvu/assert';
import { Batches } from '../../../gateway/batches/batches.ts';
import { ANONYMOUS } from '../../../gateway/system/caller.ts';
import { createLog } from '../../../gateway/telemetry/log.ts';
import { closingSuite } from '../../fixtures/closing-suite.ts';
import { durableApp, journalFolder } from '../../fixtures/durable.ts';
import { ScriptedModels } from '../../fixtures/scripted-service.ts';
import { until, within } from '../../fixtures/within.ts';

/** Lines of batches among several models. The rest is in test/wire. */

const PATIENCE_MS = 10_000;

const test = closingSuite('routes of lines');

test('a line that names none of several models fails alone: its batch is completed, and a stop waits for nothing', async () => {
  const folder = journalFolder();
  const { clock, registry: models } = new ScriptedModels({ a: 60, b: 60 });
  const bounds = { maxFileBytes: 2 ** 20, maxBytes: 2 ** 24, maxOpenLines: 2, maxLineBytes: 2 ** 16 };
  const batches = new Batches({ ...bounds, log: createLog('silent'), clock, now: Date.now });
  batches.open(`${folder}-batches`);
  await durableApp(folder, { models, batches });
  const owner = { owner: '', sharer: ANONYMOUS };
  const writer = await batches.files.begin({ ...owner, id: 'file-a', filename: 'f', purpose: 'batch' });
  const body = { model: 'nope', prompt: 'Hi' };
  const line = { custom_id: 'a', method: 'POST', url: '/v1/completions', body };
  await writer.write(Buffer.from(`${JSON.stringify(line)}\n`));
  await writer.keep();
  const batch = { ...owner, id: 'batch_a', cacheSalt: '', inputFileId: 'file-a', metadata: null };
  await batches.create({ ...batch, endpoint: '/v1/completions' });
  const now = () => batches.find([''], 'batch_a');
  await until(PATIENCE_MS, 'The end of the batch', () => now()?.status === 'completed');
  assert.equal([now()?.numCompleted, now()?.numFailed], [0, 1]);
  await within(PATIENCE_MS, 'The stop', batches.stop());
});

test.run();
