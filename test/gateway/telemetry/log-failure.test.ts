import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { GenerationError } from '../../../gateway/runner/runner.ts';
import { createLog } from '../../../gateway/telemetry/log.ts';
import { testApp } from '../../fixtures/app.ts';

const test = suite('log-failure');

test('a failure that was foreseen is logged by its code and its sentence, without a stack', async () => {
  const lines: string[] = [];
  const { runner, post } = testApp({
    log: createLog('info', undefined, { write: (line) => void lines.push(line) }),
  });
  const message = 'The runner crashes whenever it computes this request; do not send it again.';
  runner.refuse = new GenerationError('RUNNER_CRASHED', message, { retriable: false });
  assert.is((await post('/v1/completions', { model: 'bytes', prompt: 'x' })).status, 500);
  const failures = lines.map((line) => JSON.parse(line)).filter(({ event }) => event === 'error');
  assert.equal(
    failures.map(({ code, msg, err }) => [code, msg, err]),
    [['runner_crashed', message, undefined]],
  );
});

test.run();
