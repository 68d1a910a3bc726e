import * as assert from 'uvu/assert';
import type { RunnerEvent } from '../../../gateway/runner/supervision/runner-event.ts';
import { createLog, runnerLog } from '../../../gateway/telemetry/log.ts';
import { closingSuite } from '../../fixtures/closing-suite.ts';
import { collectExact, ready, requestOf } from '../../fixtures/supervised.ts';

const test = closingSuite('runner log');

test('events of runners are lines of the log, with keys in snake_case all of them', async () => {
  const events: RunnerEvent[] = [];
  const flags = ['--stderr-bytes', '70'];
  const { supervisor, kill, state } = await ready(flags, { log: (event) => events.push(event) });
  await collectExact(supervisor, requestOf([1, 2], 5));
  await kill();
  await state('ready');
  const lines: Record<string, unknown>[] = [];
  const toLog = runnerLog(
    createLog('debug', undefined, { write: (line) => void lines.push(JSON.parse(line)) }),
  );
  for (const event of events) toLog(event);
  assert.is(lines.length, events.length);
  const names = new Set(lines.flatMap((line) => Object.keys(line)));
  for (const name of names) assert.match(name, /^[a-z][a-z0-9_]*$/);
  for (const name of ['delay_ms', 'stderr_tail', 'model_identity', 'kv_cache_bytes'])
    assert.ok(names.has(name), name);
  const complete = lines.find(({ event }) => event === 'model_load_complete');
  assert.equal([complete?.level, complete?.model_identity], ['info', 'fake']);
});

test.run();
