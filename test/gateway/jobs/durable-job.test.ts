import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { DurableJob, Job } from '../../../gateway/jobs/job.ts';
import type { LogEnd } from '../../../gateway/journal/token-log.ts';
import { GenerationError } from '../../../gateway/runner/runner.ts';
import { byteModel } from '../../fixtures/byte-model.ts';
import { recordOf } from '../../fixtures/durable.ts';
import { type Act, ScriptedRunner } from '../../fixtures/scripted-runner.ts';
import { PATIENCE_MS, within } from '../../fixtures/within.ts';

const test = suite('durable job');

/** How a job ends whose runner answers by the script. */
async function endOf(script: readonly Act[], endsAtTimeLimit: boolean): Promise<LogEnd | undefined> {
  const runner = new ScriptedRunner();
  runner.script = script;
  const record = recordOf('a', { stop: [], endsAtTimeLimit });
  const content = { tokenIds: [], logprobs: undefined, first: undefined, continuations: [], end: undefined };
  const entry = {
    key: 'k',
    caller: '',
    id: 'a',
    createdMs: 0,
    endedMs: undefined,
    idempotencyKey: undefined,
  } as const;
  const kept = { record, content, endedMs: undefined, numDeaths: 0 };
  const ended = new Promise<DurableJob>((resolve) => {
    const job = new Job(entry, {});
    job.wait();
    const durable = new DurableJob(job, entry, kept, {
      onNews: () => {},
      onRefused: () => false,
      onEnd: resolve,
      onEndKept: () => {},
      now: Date.now,
    });
    durable.begin(runner, byteModel.tokenizer, undefined);
  });
  return (await within(PATIENCE_MS, 'The end', ended)).log.content.end;
}

const timeout = new GenerationError('TIMEOUT', 'Too late.', { retriable: true });

test('a time limit ends a job that has begun with what it has, if its API asks for that', async () => {
  const script = [[65, 66], timeout];
  assert.equal(await endOf(script, true), { kind: 'finish', finish: 'time_limit', isAlone: true });
  assert.equal(await endOf(script, false), { kind: 'error', error: timeout });
});

test('a time limit fails a job that has not begun', async () => {
  assert.equal(await endOf([timeout], true), { kind: 'error', error: timeout });
});

test.run();
