/** The pool over real processes: start, requests, cancel, slow consumers, bounds, stop. recovery.test.ts has deaths. */
import * as assert from 'uvu/assert';
import type { Runner } from '../../../../gateway/runner/runner.ts';
import { batchesOf } from '../../../fixtures/batches.ts';
import { closingSuite } from '../../../fixtures/closing-suite.ts';
import { answerOf } from '../../../fixtures/fake-tokens.ts';
import {
  collect,
  collectExact,
  generationErrorOf,
  patienceMs,
  ready,
  requestOf,
  supervised,
  temporaryDirectory,
} from '../../../fixtures/supervised.ts';
import { until, within } from '../../../fixtures/within.ts';

/** Whether a process exists. A zombie counts as alive until it is reaped. */
function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

const supervisorSuite = closingSuite('supervisor');

supervisorSuite('is starting with progress, then ready; a request in onReady is answered', async () => {
  let runner: Runner | undefined;
  let answer: Promise<void> | undefined;
  const onReady = () => {
    if (runner !== undefined) answer = collectExact(runner, requestOf([1, 2], 20));
  };
  const { supervisor, state } = supervised(['--slow-load', '200', '--split'], { onReady });
  runner = supervisor;
  assert.is(supervisor.status().state, 'starting');
  const early = await generationErrorOf(collect(supervisor, requestOf([1], 1)));
  assert.equal([early.code, early.retriable, early.retryAfterSec], ['NOT_READY', true, 1]);
  await until(patienceMs, 'half of the load', () => (supervisor.status().loadProgress ?? 0) >= 0.5);
  await state('ready');
  const { info, restarts, reason, loadProgress } = supervisor.status();
  assert.equal([info?.kind, info?.vocabSize, info?.numericsId], ['fake', 1000, 'fake-1']);
  assert.equal([restarts, reason, loadProgress], [0, undefined, undefined]);
  assert.ok(answer !== undefined, 'onReady was called');
  await answer;
  assert.is(supervisor.status().openRequests, 0);
});

supervisorSuite('requests: seeds of 64 bits, stop ids, log-probabilities, refusals', async () => {
  const directory = temporaryDirectory();
  const { supervisor } = await ready(['--echo-file', directory.path('echo')]);
  const sampling = { ...requestOf([], 0).sampling, seed: 18446744073709551615n };
  await collectExact(supervisor, requestOf([5], 10, { sampling }));
  const echoed = directory.jsonLines('echo')[0]?.generate?.sampling;
  assert.is((echoed as Record<string, unknown>).seed, '18446744073709551615');

  const answer = answerOf([1, 2, 3], 42n, 100);
  const stopId = answer.find((id, index) => index >= 5 && answer.indexOf(id) === index) ?? 0;
  const ids = await collect(supervisor, requestOf([1, 2, 3], 100, { stopIds: [stopId] }));
  assert.equal(ids, answer.slice(0, answer.indexOf(stopId) + 1));

  for await (const batch of batchesOf(supervisor, requestOf([1], 3, { topLogprobs: 1 }))) {
    assert.equal(
      batch.logprobs?.map((entry) => entry.topIds[0]),
      [...batch.tokenIds],
    );
  }

  const refused = await generationErrorOf(collect(supervisor, requestOf([1000], 1)));
  assert.equal([refused.code, refused.retriable], ['INVALID_REQUEST', false]);
  const impossible = await generationErrorOf(collect(supervisor, requestOf([-1], 1)));
  assert.is(impossible.code, 'INVALID_REQUEST');
  assert.match(impossible.message, /token_ids .* not -1/);
  assert.is(supervisor.status().restarts, 0);
});

supervisorSuite(
  'prompt tokens have a bound together, and what can never fit is no matter of waiting',
  async () => {
    const limits = { maxOpenRequests: 3, maxQueuedTokens: 10 };
    const { supervisor } = await ready(['--delay-ms', '5'], limits);
    const abort = new AbortController();
    const six = requestOf([1, 2, 3, 4, 5, 6], 1000);
    const open = generationErrorOf(collect(supervisor, six, { signal: abort.signal }));
    assert.is(supervisor.status().openTokens, 6);
    const refusal = async (...sizes: number[]) => {
      const requests = sizes.map((size) => requestOf(new Array(size).fill(1), 1));
      const reading = async () => supervisor.assertCapacity(requests);
      const { code, retriable, retryAfterSec } = await generationErrorOf(reading());
      return [code, retriable, retryAfterSec];
    };
    assert.equal(await refusal(5), ['QUEUE_FULL', true, 1], 'too many tokens now');
    assert.equal(await refusal(1, 1, 3), ['QUEUE_FULL', true, 1], 'too many requests now');
    assert.equal(await refusal(11), ['INVALID_REQUEST', false, undefined], 'too many tokens ever');
    assert.equal(await refusal(6, 5), ['INVALID_REQUEST', false, undefined]);
    assert.equal(await refusal(1, 1, 1, 1), ['INVALID_REQUEST', false, undefined], 'too many requests ever');
    assert.equal([supervisor.status().openRequests, supervisor.status().openTokens], [1, 6]);
    assert.is(
      (await generationErrorOf(collect(supervisor, requestOf([1, 2, 3, 4, 5], 1)))).code,
      'QUEUE_FULL',
    );
    await collectExact(supervisor, requestOf([1, 2, 3, 4], 5));
    abort.abort();
    await open;
    assert.is(supervisor.status().openTokens, 0);
    const next = requestOf([1, 2, 3, 4, 5], 1);
    const isTaken = () =>
      collect(supervisor, next).then(
        () => true,
        () => false,
      );
    await until(patienceMs, 'room again, once the runner lets go', isTaken);
  },
);

supervisorSuite('stop finishes open requests, refuses new ones and frees everything', async () => {
  const handles = () =>
    process.getActiveResourcesInfo().filter((name) => name !== 'Timeout' && name !== 'Immediate');
  const before = handles();
  const { supervisor, eventsOf } = await ready(['--delay-ms', '5']);
  const pid = supervisor.status().pid ?? 0;
  const open = collectExact(supervisor, requestOf([1], 40));
  const stopped = supervisor.stop(patienceMs);
  assert.is(supervisor.status().state, 'stopping');
  assert.is((await generationErrorOf(collect(supervisor, requestOf([2], 1)))).code, 'NOT_READY');
  await open;
  await within(patienceMs, 'the stop', stopped);
  assert.is(isAlive(pid), false);
  assert.is(supervisor.status().pid, undefined);
  assert.equal(
    eventsOf('runner_exited').map(({ code }) => code),
    [0],
  );
  // Handles close one turn of the event loop after their event.
  await until(patienceMs, 'the close of every handle', () =>
    handles().every((name) => before.includes(name)),
  );
});

supervisorSuite('stop fails what outlasts it, and kills a runner that will not go', async () => {
  const limits = { terminateAfterMs: 50 };
  const { supervisor, eventsOf } = await ready(['--delay-ms', '5', '--stubborn'], { limits });
  const open = generationErrorOf(collect(supervisor, requestOf([1], 4000)));
  await within(patienceMs, 'the stop', supervisor.stop(30));
  const error = await open;
  assert.equal([error.code, error.retriable], ['INFERENCE_FAILED', true]);
  assert.equal(
    eventsOf('runner_exited').map(({ signal }) => signal),
    ['SIGKILL'],
  );
});

supervisorSuite('a runner that loads a changed model file causes the others to be replaced', async () => {
  const directory = temporaryDirectory();
  const model = directory.write('model', 'first');
  const { supervisor } = supervised(['--model', model], { numRunners: 2 });
  const runners = () => supervisor.status().runners ?? [];
  const areOf = (identity: string) => () =>
    runners().every(({ state, info }) => state === 'ready' && info?.modelIdentity === identity);
  await until(patienceMs, 'both runners', areOf('first'));
  const pids = runners().map(({ pid }) => pid);
  directory.write('model', 'second');
  process.kill(pids[0] as number, 'SIGKILL');
  await until(patienceMs, 'both runners with the new file', areOf('second'));
  assert.ok(runners().every(({ pid }) => !pids.includes(pid)));
  await collectExact(supervisor, requestOf([1], 5, { modelIdentity: 'second' }));
});

supervisorSuite('a runner that is ready has all its blocks, before its next heartbeat', async () => {
  const { supervisor } = await ready([]);
  const { info, numFreeBlocks } = supervisor.status();
  assert.is(numFreeBlocks, info?.numBlocks);
});

supervisorSuite('stop ends a runner that still loads', async () => {
  const { supervisor } = supervised(['--slow-load', '60000']);
  await until(patienceMs, 'the load', () => supervisor.status().loadProgress !== undefined);
  await within(patienceMs, 'the stop', supervisor.stop(0));
  assert.is(supervisor.status().pid, undefined);
});

supervisorSuite.run();
