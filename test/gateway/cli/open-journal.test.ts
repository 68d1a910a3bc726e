import { mkdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { Batches } from '../../../gateway/batches/batches.ts';
import { openDefaultJournal } from '../../../gateway/cli/open-journal.ts';
import { batchBounds } from '../../../gateway/cli/server-settings.ts';
import { readConfig } from '../../../gateway/config/config.ts';
import { Jobs } from '../../../gateway/jobs/jobs.ts';
import { KeyDigests } from '../../../gateway/server/guard/caller.ts';
import { systemClock } from '../../../gateway/system/clock.ts';
import { createLog } from '../../../gateway/telemetry/log.ts';
import { oneModel } from '../../fixtures/app.ts';
import { byteModel } from '../../fixtures/byte-model.ts';
import { ScriptedRunner } from '../../fixtures/scripted-runner.ts';
import { temporaryFolder } from '../../fixtures/temporary-folder.ts';

const test = suite('open-journal');

const { STATE_DIRECTORY, XDG_STATE_HOME } = process.env;

test.after.each(() => {
  for (const [name, value] of Object.entries({ STATE_DIRECTORY, XDG_STATE_HOME })) {
    if (value === undefined) delete process.env[name];
    else process.env[name] = value;
  }
});

async function opened(env: Readonly<Record<string, string>>) {
  Object.assign(process.env, env);
  const lines: string[] = [];
  const log = createLog('info', undefined, { write: (line) => void lines.push(line) });
  const models = oneModel(() => byteModel, new ScriptedRunner());
  const jobs = new Jobs({ models, log, now: Date.now });
  const config = readConfig(['--model', 'm.gguf'], {});
  const batches = new Batches({ ...batchBounds(config), clock: systemClock, log, now: Date.now });
  await openDefaultJournal(jobs, batches, new KeyDigests(), config, log);
  return { jobs, lines: lines.map((line) => JSON.parse(line)) };
}

test('without settings the journal is in the state folder, and its bounds are in the log', async () => {
  const root = temporaryFolder().path;
  const cases = [
    [{ XDG_STATE_HOME: join(root, 'home') }, join(root, 'home', 'runnel', 'journal')],
    [{ STATE_DIRECTORY: `${join(root, 'unit')}:/other` }, join(root, 'unit', 'journal')],
  ] as const;
  for (const [env, folder] of cases) {
    const { jobs, lines } = await opened(env);
    assert.ok(statSync(folder).isDirectory());
    const [line] = lines;
    assert.equal(
      [line.event, line.folder, line.max_jobs, line.max_bytes, line.keep_sec],
      ['journal_opened', folder, 1024, 2 ** 26, 3600],
    );
    await jobs.stop();
  }
});

test('a second gateway, and one that may not write the state folder, run without a journal and say so', async () => {
  const home = temporaryFolder().path;
  const first = await opened({ XDG_STATE_HOME: home });
  const second = await opened({});
  assert.is(second.jobs.isKeeping, false);
  assert.is(second.lines[0].event, 'journal_off');
  assert.match(second.lines[0].msg, /durable jobs are refused.*used by another gateway/);
  await first.jobs.stop();
  const file = join(home, 'file');
  mkdirSync(home, { recursive: true });
  writeFileSync(file, '');
  const third = await opened({ XDG_STATE_HOME: file });
  assert.is(third.jobs.isKeeping, false);
  assert.match(third.lines[0].msg, /ENOTDIR/);
});

test.run();
