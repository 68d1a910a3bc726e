import { readFileSync } from 'node:fs';
import * as assert from 'uvu/assert';
import { Batches } from '../../../gateway/batches/batches.ts';
import { ANONYMOUS } from '../../../gateway/system/caller.ts';
import { createLog } from '../../../gateway/telemetry/log.ts';
import { oneModel } from '../../fixtures/app.ts';
import { byteModel, EOS_ID } from '../../fixtures/byte-model.ts';
import { closeLater, closingSuite } from '../../fixtures/closing-suite.ts';
import { type DurableApp, durableApp, journalFolder } from '../../fixtures/durable.ts';
import { ScriptedRunner } from '../../fixtures/scripted-runner.ts';
import { ScriptedModels } from '../../fixtures/scripted-service.ts';
import { VirtualClock } from '../../fixtures/virtual-clock.ts';
import { until, within } from '../../fixtures/within.ts';

/** Lines of batches among several models, and beside other jobs. The rest is in test/wire. */

const PATIENCE_MS = 10_000;

const test = closingSuite('routes of lines');

interface Begun {
  readonly app: DurableApp;
  readonly batches: Batches;
  /** Resolves with the counts of the batch, completed and failed. */
  readonly ended: () => Promise<readonly (number | undefined)[]>;
  /** The lines of the errors. */
  readonly errors: () => string;
}

/** Begins a batch with one line. */
async function begin(body: object, changes: Parameters<typeof durableApp>[1] = {}): Promise<Begun> {
  const folder = journalFolder();
  const bounds = { maxFileBytes: 2 ** 20, maxBytes: 2 ** 24, maxOpenLines: 2, maxLineBytes: 2 ** 16 };
  const log = createLog('silent');
  const batches = new Batches({ ...bounds, log, clock: new VirtualClock(), now: Date.now });
  batches.open(`${folder}-batches`);
  closeLater(() => batches.stop());
  const app = await durableApp(folder, { ...changes, batches });
  const owner = { owner: '', sharer: ANONYMOUS };
  const writer = await batches.files.begin({ ...owner, id: 'file-a', filename: 'f', purpose: 'batch' });
  const line = { custom_id: 'a', method: 'POST', url: '/v1/completions', body };
  await writer.write(Buffer.from(`${JSON.stringify(line)}\n`));
  await writer.keep();
  const batch = { ...owner, id: 'batch_a', cacheSalt: '', inputFileId: 'file-a', metadata: null };
  await batches.create({ ...batch, window: '24h', endpoint: '/v1/completions' });
  const now = () => batches.find([''], 'batch_a');
  const ended = async () => {
    await until(PATIENCE_MS, 'The end of the batch', () => now()?.status === 'completed');
    return [now()?.numCompleted, now()?.numFailed];
  };
  const errors = () => readFileSync(batches.files.pathOf({ id: now()?.errorFileId ?? '' }), 'utf8');
  return { app, batches, ended, errors };
}

test('a line that names none of several models fails alone: its batch is completed, and a stop waits for nothing', async () => {
  const { registry: models } = new ScriptedModels({ a: 60, b: 60 });
  const { batches, ended } = await begin({ model: 'nope', prompt: 'Hi' }, { models });
  assert.equal(await ended(), [0, 1]);
  await within(PATIENCE_MS, 'The stop', batches.stop());
});

test('a line whose receipt cannot be made is computed once, and says so in the errors', async () => {
  const runner = new ScriptedRunner();
  runner.script = [[...Buffer.from('Hello.'), EOS_ID]];
  const weightsHash = async (): Promise<string> => {
    throw new Error('The files have changed.');
  };
  const model = () => ({ ...byteModel, weightsHash });
  const { ended, errors } = await begin({ model: 'bytes', prompt: 'Hi', receipt: true }, { runner, model });
  assert.equal(await ended(), [0, 1]);
  assert.match(errors(), /"status_code":503.*"code":"receipt_unavailable"/);
  assert.is(runner.requests.length, 1);
});

test('lines leave a model for somebody who is not in the background, and go on later; other jobs stay', async () => {
  const answer = [...Buffer.from('Hello.'), EOS_ID];
  const runner = new ScriptedRunner();
  runner.scriptOf = ({ promptIds, resumeFrom }) => {
    if (runner.requests.length > 2) return [answer.slice(resumeFrom?.tokenIds.length ?? 0)];
    // The line has no token yet.
    return String.fromCharCode(...promptIds) === 'line' ? ['wait'] : [answer.slice(0, 2), 'wait'];
  };
  const { app, ended } = await begin({ model: 'bytes', prompt: 'line' }, { runner });
  const asked = { model: 'bytes', prompt: 'other', stream: true, durable: true };
  const other = app.post('/v1/completions', asked).then((response) => response.text());
  await until(PATIENCE_MS, 'Both jobs', () => runner.numAtWait === 2);
  const leaving = { ...oneModel(() => byteModel, runner).default, isLeaving: true };
  app.jobs.endTurn(leaving, true);
  assert.equal(await ended(), [1, 0]);
  const prompts = () => runner.requests.map(({ promptIds }) => String.fromCharCode(...promptIds)).sort();
  assert.equal(prompts(), ['line', 'line', 'other']);
  app.jobs.endTurn(leaving);
  assert.match(await other, /\[DONE\]/);
  assert.equal(prompts(), ['line', 'line', 'other', 'other']);
});

test.run();
