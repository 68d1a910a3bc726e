import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { type Health, statusOf } from '../../../../gateway/playground/page/status.ts';
import { statsOf } from '../../../../gateway/runner/protocol/scheduler-stats.ts';
import { testApp } from '../../../fixtures/app.ts';
import { ScriptedRunner } from '../../../fixtures/scripted-runner.ts';

const test = suite('playground status');

/** The gateway's /health for a runner in this state. */
async function healthOf(changes: Partial<ScriptedRunner['current']> = {}): Promise<Health> {
  const runner = new ScriptedRunner();
  runner.current = { ...runner.current, ...changes };
  return (await testApp({ runner }).get('/health')).json() as Promise<Health>;
}

test('the page shows what /health reports', async () => {
  const stats = { ...statsOf(() => 0), numRunning: 3, numGeneratedTokens: 70 };
  const health = await healthOf({
    openRequests: 5,
    numFreeBlocks: 48,
    restarts: 2,
    stats,
  });
  const status = statusOf(health);
  assert.equal(
    [status.state, status.running, status.waiting, status.restarts, status.generatedTokens],
    ['busy', 3, 2, 2, 70],
  );
  assert.equal(status.kvCache, { used: 16, total: 64 });
  assert.is(status.models.length, 1);
  assert.equal([status.models[0]?.name, status.models[0]?.state], ['bytes', 'loaded']);
  assert.equal(
    status.runners.map(({ pid }) => pid),
    [4711],
  );
});

test('without a runner nothing is shown as running, and the reason appears', async () => {
  const reason = 'The runner was ended by SIGKILL.';
  const health = await healthOf({
    state: 'recovering',
    reason,
    pid: undefined,
    openRequests: 1,
    loadProgress: 0.4,
  });
  const status = statusOf(health);
  assert.equal(
    [status.state, status.reason, status.running, status.waiting, status.kvCache],
    ['recovering', reason, 0, 1, undefined],
  );
  assert.equal([status.models[0]?.state, status.models[0]?.progress], ['loading', 0.4]);
  assert.equal(status.runners, []);
});

test('a recently finished request is not shown as running', async () => {
  const stats = { ...statsOf(() => 0), numRunning: 2 };
  const health = await healthOf({
    openRequests: 0,
    stats,
  });
  assert.equal([statusOf(health).running, statusOf(health).waiting], [0, 0]);
});

test('of several models each has its state, and requests and restarts are those of all', async () => {
  const one = { load_progress: null, reason: null, pid: null, restarts: 0, open_requests: 0 };
  const models = [
    { ...one, name: 'a', state: 'loaded', pid: 4711, restarts: 1, open_requests: 2 },
    { ...one, name: 'b', state: 'failed', reason: 'It is damaged.', restarts: 2, open_requests: 1 },
  ];
  const status = statusOf({ ...(await healthOf()), models });
  assert.equal([status.restarts, status.running + status.waiting], [3, 3]);
  assert.equal(
    status.models.map(({ name, state, reason }) => [name, state, reason]),
    [
      ['a', 'loaded', undefined],
      ['b', 'failed', 'It is damaged.'],
    ],
  );
  assert.equal(
    status.runners.map(({ pid }) => pid),
    [4711],
    'each once',
  );
});

test.run();
