import { existsSync } from 'node:fs';
import * as assert from 'uvu/assert';
import { GenerationError } from '../../../../gateway/runner/runner.ts';
import type { RunnerPool } from '../../../../gateway/runner/supervision/runner-pool.ts';
import { batchesOf } from '../../../fixtures/batches.ts';
import { closingSuite } from '../../../fixtures/closing-suite.ts';
import { answerOf } from '../../../fixtures/fake-tokens.ts';
import { stateOf } from '../../../fixtures/gateway.ts';
import {
  collect,
  collectExact,
  generationErrorOf,
  onceAt,
  patienceMs,
  ready,
  requestOf,
  temporaryDirectory,
} from '../../../fixtures/supervised.ts';
import { VirtualClock } from '../../../fixtures/virtual-clock.ts';
import { until } from '../../../fixtures/within.ts';

const recovery = closingSuite('recovery');

recovery(
  'the resumed frame carries the prompt, the emitted ids, their number, and all else as it was',
  async () => {
    const directory = temporaryDirectory();
    const flags = ['--delay-ms', '5', '--echo-file', directory.path('echo')];
    const { supervisor, kill } = await ready(flags);
    let emitted: readonly number[] = [];
    const onBatch = async (ids: readonly number[]) => {
      if (ids.length < 10 || emitted.length > 0) return;
      emitted = [...ids];
      await kill();
      assert.is(supervisor.status().state, 'recovering');
    };
    const prompt = [7, 8, 9];
    const sampling = { ...requestOf([], 0).sampling, seed: 2n ** 64n - 1n, topK: 5 };
    await collectExact(supervisor, requestOf(prompt, 60, { sampling, topLogprobs: 3 }), { onBatch });
    const [first, resumed] = directory.jsonLines('echo').map(({ generate }) => generate ?? {});
    const ids = resumed?.tokenIds as number[];
    assert.equal(ids.slice(0, prompt.length), prompt);
    assert.ok(ids.length >= prompt.length + emitted.length, 'every token the consumer saw is there');
    assert.equal(ids.slice(prompt.length), answerOf(prompt, sampling.seed, ids.length - prompt.length));
    const same = { requestId: 1, maxTokens: 60, sampling: first?.sampling, topLogprobs: 3 };
    assert.equal(resumed, { ...same, tokenIds: ids, numEmitted: ids.length - prompt.length });
    assert.is(supervisor.status().restarts, 1);
  },
);

recovery('the first tokens of the next runner say that they are, once for each death', async () => {
  const { supervisor, kill } = await ready(['--delay-ms', '5']);
  const resumed: boolean[] = [];
  for await (const { isResumed } of batchesOf(supervisor, requestOf([1], 200))) {
    resumed.push(isResumed ?? false);
    if (resumed.length === 5) await kill();
  }
  assert.is(resumed.filter(Boolean).length, 1);
  assert.not.ok(resumed.slice(0, 5).includes(true));
});

recovery(
  'a sink hears when a runner has the request and when it is lost, and of no loss when all requests are failed',
  async () => {
    const { supervisor, kill, state } = await ready(['--delay-ms', '5']);
    const heard: string[] = [];
    supervisor.generate(requestOf([1], 4000), {
      onTokens: () => {},
      onTaken: () => heard.push('taken'),
      onLost: () => heard.push('lost'),
      onError: ({ code }) => heard.push(code),
    });
    await kill();
    await state('ready');
    await until(patienceMs, 'the next runner', () => heard.includes('taken', 1));
    supervisor.failOpen(new GenerationError('INFERENCE_FAILED', 'It broke.', { retriable: false }));
    // The request of the isolation run is taken by the same runner again for the tokens after the first one.
    assert.match(heard.join(' '), /^taken lost taken (taken )?INFERENCE_FAILED$/);
  },
);

recovery('a paused stream is paused on the next runner, too', async () => {
  const directory = temporaryDirectory();
  const { supervisor, kill } = await ready(['--echo-file', directory.path('echo')]);
  const received = () => directory.jsonLines('echo').flatMap((message) => Object.keys(message));
  let hasBegun = false;
  const onBatch = async () => {
    if (hasBegun) return;
    hasBegun = true;
    await until(patienceMs, 'a pause', () => received().includes('pause'));
    await kill();
    await until(patienceMs, 'the resumed request', () => received().length === 4);
  };
  await collectExact(supervisor, requestOf([1], 2000), { onBatch });
  assert.equal(received().slice(0, 5), ['generate', 'pause', 'generate', 'pause', 'resume']);
});

recovery('a consumer that does not read holds up nobody when its stream is a suspect', async () => {
  const directory = temporaryDirectory();
  const { supervisor, state } = await ready(['--echo-file', directory.path('echo')]);
  let release: () => void = () => {};
  const gate = new Promise<void>((resolve) => {
    release = resolve;
  });
  const slow = collectExact(supervisor, requestOf([1], 2000), { onBatch: () => gate });
  const isPaused = () => directory.jsonLines('echo').some((message) => message.pause !== undefined);
  await until(patienceMs, 'a pause', isPaused);
  process.kill(supervisor.status().pid ?? 0, 'SIGSEGV');
  await until(patienceMs, 'the restart', () => supervisor.status().restarts === 1);
  await state('ready');
  await collectExact(supervisor, requestOf([2], 50));
  release();
  await slow;
  const asked = directory
    .jsonLines('echo')
    .flatMap(({ generate }) => (generate === undefined ? [] : [generate]));
  const ids = asked.map(({ tokenIds }) => (tokenIds as number[])[0]);
  assert.equal(ids, [1, 0, 1, 1, 2], 'the canary, the suspect alone, then all');
  assert.is(Number(asked[2]?.maxTokens), Number(asked[2]?.numEmitted) + 1);
});

for (const lie of ['index', 'id', 'vocab', 'after-end', 'garbage', 'oversize']) {
  recovery(`a runner that lies (${lie}) is killed, and the streams go on`, async () => {
    const directory = temporaryDirectory();
    const flags = ['--lie', lie, '--crash-after', '12', '--crash-file', directory.write('fault', '')];
    const { supervisor, eventsOf } = await ready(flags);
    const lengths = [10, 40, 40];
    await Promise.all(lengths.map((length, id) => collectExact(supervisor, requestOf([id], length))));
    await until(patienceMs, 'the restart', () => supervisor.status().restarts === 1);
    assert.equal(
      eventsOf('runner_exited').map(({ signal }) => signal),
      ['SIGKILL'],
    );
  });
}

for (const flag of ['--numerics-file', '--ready-numerics-file']) {
  recovery(`a change of numerics (${flag}) is said, and the streams go on`, async () => {
    const directory = temporaryDirectory();
    const numerics = directory.write('numerics', 'i8-1-long');
    const { supervisor, kill, eventsOf } = await ready([flag, numerics, '--delay-ms', '5']);
    const onBatch = onceAt(3, async () => {
      directory.write('numerics', 'i8-1-short');
      await kill();
    });
    await collectExact(supervisor, requestOf([1], 200), { onBatch });
    assert.equal(
      eventsOf('numerics_changed').map(({ from, to }) => [from, to]),
      [['i8-1-long', 'i8-1-short']],
    );
    assert.is(supervisor.status().info?.numericsId, 'i8-1-short');
  });
}

recovery(
  'a request that kills its runner, and again when it is alone with it, is failed and refused',
  async () => {
    const { supervisor, state, eventsOf } = await ready(['--poison', '7']);
    const error = await generationErrorOf(collect(supervisor, requestOf([7, 1], 10)));
    assert.equal([error.code, error.retriable], ['RUNNER_CRASHED', false]);
    assert.is(eventsOf('request_quarantined').length, 1);
    await state('ready');
    const sampling = { ...requestOf([], 0).sampling, seed: 43n };
    const again = await generationErrorOf(collect(supervisor, requestOf([7, 1], 10, { sampling })));
    assert.is(again.code, 'RUNNER_CRASHED', 'another seed makes it no other request');
    await collectExact(supervisor, requestOf([8, 1], 10));
    assert.is(supervisor.status().restarts, 2);
  },
);

/**
 * Lets a little time pass each time it is called, if the runner is stopped or has reported since the last time: so a
 * runner that the machine does not let run is not taken for one that is silent.
 */
function passing(supervisor: RunnerPool, clock: VirtualClock): () => void {
  let last: unknown;
  return () => {
    const { pid = 0, stats } = supervisor.status();
    if (stateOf(pid) !== 'T' && stats === last) return;
    last = stats;
    clock.pass(100);
  };
}

recovery('a runner that is stopped, or computes no more, is replaced, and the streams go on', async () => {
  const short = { silenceMs: 1500, wedgeMs: 1500, unmeasuredWedgeMs: 1500, abortGraceMs: 200 };
  for (const [flags, limits, sentence] of [
    [
      ['--crash-signal', 'SIGSTOP', '--crash-after', '5'],
      { ...short, wedgeMs: 60_000 },
      /was silent for 1.5 s/,
    ],
    ...(['decode', 'mixed'] as const).map(
      (phase) =>
        [
          ['--wedge', '1', '--phase', phase],
          { ...short, silenceMs: 60_000 },
          new RegExp(`in ${phase} for 2 s without finishing step 1\\.`),
        ] as const,
    ),
    [
      ['--wedge', '1', '--phase', 'idle'],
      { ...short, silenceMs: 5000 },
      /reported the phase idle for 5.5 s although requests are open, and did not begin step 1\./,
    ],
  ] as const) {
    const directory = temporaryDirectory();
    const paces = ['--delay-ms', '5', '--heartbeat-ms', '2', '--stats-ms', '5'];
    const options = [...flags, ...paces, '--crash-file', directory.write('fault', '')];
    const clock = new VirtualClock();
    const { supervisor, eventsOf } = await ready(options, { limits, clock });
    const answers = Promise.all([1, 2].map((id) => collectExact(supervisor, requestOf([id], 40))));
    await until(patienceMs, 'the fault', () => !existsSync(directory.path('fault')));
    const pass = passing(supervisor, clock);
    await until(patienceMs, 'the death', () => {
      pass();
      return eventsOf('runner_exited').length > 0;
    });
    await until(patienceMs, 'the next runner', () => {
      clock.pass(10);
      return supervisor.status().pid !== undefined;
    });
    // From here on no time passes, however long the next runner takes.
    await answers;
    assert.equal(eventsOf('runner_exited').length, 1);
    assert.match(String(eventsOf('runner_exited')[0]?.reason), sentence);
  }
});

recovery('while it recovers, requests wait within the bound, and can be cancelled', async () => {
  const { supervisor, kill } = await ready(['--slow-load', '300'], { maxOpenRequests: 2 });
  await kill();
  assert.is(supervisor.status().state, 'recovering');
  const abort = new AbortController();
  const cancelled = generationErrorOf(collect(supervisor, requestOf([1], 10), { signal: abort.signal }));
  const waiting = collectExact(supervisor, requestOf([2], 10));
  assert.is((await generationErrorOf(collect(supervisor, requestOf([3], 10)))).code, 'QUEUE_FULL');
  abort.abort();
  assert.is((await cancelled).code, 'CANCELLED');
  assert.is(supervisor.status().state, 'recovering');
  await waiting;
});

recovery('prompt scores come once, though the runner dies among them', async () => {
  const directory = temporaryDirectory();
  const crash = ['--crash-at', 'prompt', '--crash-after', '0', '--crash-file', directory.write('fault', '')];
  const { supervisor } = await ready([...crash, '--echo-file', directory.path('echo')]);
  const promptIds = [1, 2, 3, 4, 5, 6, 7];
  const scores: number[][] = [];
  const request = requestOf(promptIds, 20, { promptLogprobs: 0 });
  for await (const batch of batchesOf(supervisor, request)) {
    if (batch.promptLogprobs) scores.push(batch.promptLogprobs.map(({ logprob }) => logprob));
  }
  assert.equal(scores, [[-1, -2, -3, -4, -5, -6]]);
  assert.is(supervisor.status().restarts, 1);
  const asked = directory.jsonLines('echo').map(({ generate }) => generate?.promptLogprobs);
  assert.equal(asked, [0, undefined, 0, undefined], 'asked, the canary, alone again, and without them');
});

recovery('the cached token count is the one of the first runner', async () => {
  const { supervisor, kill } = await ready(['--delay-ms', '5']);
  const cached: number[] = [];
  let isKilled = false;
  for await (const { first, firstIndex } of batchesOf(supervisor, requestOf([1, 2, 3], 30))) {
    if (first !== undefined) cached.push(first.numCachedTokens);
    if (firstIndex < 5 || isKilled) continue;
    isKilled = true;
    await kill();
  }
  assert.equal(cached, [2]);
  assert.is(supervisor.status().restarts, 1);
});

recovery('statistics are the runner’s of now, counters go on', async () => {
  const { supervisor, state, kill } = await ready(['--stats-ms', '10']);
  const generated = () => supervisor.status().counters.numGeneratedTokens;
  await collect(supervisor, requestOf([1], 30));
  await until(patienceMs, 'the counts', () => generated() === 30);
  assert.is(supervisor.status().stats?.numFinished, 1);
  await kill();
  assert.equal([generated(), supervisor.status().stats], [30, undefined]);
  await state('ready');
  await collect(supervisor, requestOf([1], 12));
  await until(patienceMs, 'the counts of both', () => generated() === 42);
  assert.is(supervisor.status().stats?.numGeneratedTokens, 12);
  assert.is(supervisor.status().counters.numFinished, 2);
});

recovery.run();
