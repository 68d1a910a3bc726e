import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import {
  type GenerateRequest,
  type GenerationError,
  neutralSampling,
} from '../../../../gateway/runner/runner.ts';
import { answerOf, fakeVocabSize } from '../../../fixtures/fake-tokens.ts';
import {
  collectExact,
  fakeCommand,
  patienceMs,
  requestOf,
  supervised,
  withDirectory,
} from '../../../fixtures/supervised.ts';
import { until, within } from '../../../fixtures/within.ts';

const test = suite('replace');

const NUM_TOKENS = 1500;

/** Ways in which streams may be requested. All of them have the same number of tokens. */
const variations: readonly Partial<GenerateRequest>[] = [
  {},
  { sampling: { ...neutralSampling, seed: 2n ** 64n - 1n } },
  { sampling: { ...neutralSampling, seed: 7n, temperature: 0.5, topK: 40, topP: 0.9, minP: 0.01 } },
  {
    sampling: {
      ...{ ...neutralSampling, seed: 8n },
      ...{ repetitionPenalty: 1.5, presencePenalty: -1, frequencyPenalty: 1 },
    },
  },
  { sampling: { ...neutralSampling, seed: 9n, logitBias: new Map([[5, -100]]) } },
  // A stop id that never comes.
  { minTokens: 5, stopIds: absentIds([5, 3], 42n) },
  { topLogprobs: 3 },
  { cacheSalt: Uint8Array.of(1, 2, 3) },
];

/** Some ids that the answer does not contain. */
function absentIds(promptIds: readonly number[], seed: bigint): number[] {
  const answer = new Set(answerOf(promptIds, seed, NUM_TOKENS));
  return Array.from({ length: fakeVocabSize }, (_, id) => id)
    .filter((id) => !answer.has(id))
    .slice(0, 3);
}

test('five new runners under eight streams: every stream is as if there had been one, whatever it was asked with', async () => {
  await withDirectory(async (directory) => {
    const flags = ['--delay-ms', '2', '--echo-file', directory.path('told')];
    await supervised(flags, {}, async ({ supervisor, state, eventsOf }) => {
      await state('ready');
      const counts = variations.map(() => 0);
      const streams = variations.map((change, index) =>
        collectExact(supervisor, requestOf([index, 3], NUM_TOKENS, change), {
          onBatch: (ids: readonly number[]) => {
            counts[index] = ids.length;
          },
        }),
      );
      for (let round = 0; round < 5; round++) {
        const before = [...counts];
        const haveAllGoneOn = () => counts.every((count, index) => count > (before[index] ?? 0));
        await until(patienceMs, 'A token for every stream', haveAllGoneOn);
        const { pid } = supervisor.status();
        const replaced = supervisor.replaceRunner({ command: () => fakeCommand(...flags) });
        assert.is(supervisor.status().state, 'recovering');
        assert.is(await within(patienceMs, 'The new runner', replaced), undefined);
        assert.is.not(supervisor.status().pid, pid);
        assert.is(supervisor.status().openRequests, 8, 'the streams go on');
      }
      await Promise.all(streams);
      assert.is(supervisor.status().restarts, 5);
      assert.equal(
        eventsOf('runner_exited').map(({ code }) => code),
        [0, 0, 0, 0, 0],
        'each ended by itself, at the end of a step',
      );
    });
    const told = directory.jsonLines('told').flatMap(({ generate }) => (generate ? [generate] : []));
    for (const [index, change] of variations.entries()) {
      const ofStream = told.filter(({ tokenIds }) => (tokenIds as number[])[0] === index);
      assert.is(ofStream.length, 6, `stream ${index}: each runner is told once`);
      for (const { requestId: _, tokenIds, numEmitted = 0, ...asked } of ofStream) {
        const { requestId: _first, tokenIds: _ids, numEmitted: _none, ...first } = ofStream[0] ?? {};
        assert.equal(asked, first, `stream ${index}, ${JSON.stringify(Object.keys(change))}`);
        assert.is((tokenIds as number[]).length, 2 + Number(numEmitted));
      }
      const emitted = ofStream.map(({ numEmitted = 0 }) => Number(numEmitted));
      for (const [round, count] of emitted.entries())
        assert.ok(round === 0 ? count === 0 : count > (emitted[round - 1] ?? 0), `${emitted}: each goes on`);
    }
    // Each request differs from the others, so that none can stand for another.
    const asked = told
      .slice(0, variations.length)
      .map(({ requestId: _, tokenIds: _ids, ...rest }) => JSON.stringify(rest));
    assert.is(new Set(asked).size, variations.length);
  });
});

test('a new runner that cannot be: the command of before runs again, and the streams go on', async () => {
  for (const [bad, reason] of [
    [['--exit-code', '64', '--failure', 'It has no such flag.'], 'It has no such flag.'],
    [['--crash-at', 'load', '--crash-after', '0'], 'SIGSEGV'],
    [['--wrong-version'], 'version'],
  ] as const) {
    await supervised(['--delay-ms', '2'], {}, async ({ supervisor, state, eventsOf }) => {
      await state('ready');
      const stream = collectExact(supervisor, requestOf([7], 400));
      const replaced = supervisor.replaceRunner({ command: () => fakeCommand(...bad) });
      assert.match((await within(patienceMs, 'The failure', replaced)) ?? '', reason);
      await stream;
      assert.is(supervisor.status().state, 'ready');
      assert.is(eventsOf('runner_replacement_failed').length, 1);
    });
  }
});

test('a runner that does not end by itself is ended, and replaced all the same', async () => {
  const limits = { terminateAfterMs: 50 };
  await supervised(['--stubborn', '--delay-ms', '2'], { limits }, async ({ supervisor, state }) => {
    await state('ready');
    const stream = collectExact(supervisor, requestOf([7], 200));
    const replaced = supervisor.replaceRunner({ command: () => fakeCommand() });
    assert.is(await within(patienceMs, 'The new runner', replaced), undefined);
    await stream;
  });
});

test('two replacements at once: the last one counts, and both hear of it', async () => {
  await supervised(['--delay-ms', '2'], {}, async ({ supervisor, state }) => {
    await state('ready');
    const stream = collectExact(supervisor, requestOf([7], 400));
    const first = supervisor.replaceRunner({ command: () => fakeCommand('--wrong-version') });
    const second = supervisor.replaceRunner({ command: () => fakeCommand('--max-model-len', '2000') });
    assert.equal(await within(patienceMs, 'The new runner', Promise.all([first, second])), [
      undefined,
      undefined,
    ]);
    assert.is(supervisor.status().info?.maxModelLen, 2000);
    await stream;
  });
});

test('a stream that outgrows the smaller context of a new runner fails for lack of memory, with all tokens until then', async () => {
  // The one stream has room for some tokens more on the new runner, the other for none.
  for (const smaller of [400, 20]) {
    await supervised(['--delay-ms', '2'], {}, async ({ supervisor, state }) => {
      await state('ready');
      const ids: number[] = [];
      const prompt = [7, 3];
      const failed = new Promise<GenerationError>((resolve, reject) => {
        supervisor.generate(requestOf(prompt, NUM_TOKENS), {
          onTokens: ({ tokenIds, finish }) => {
            ids.push(...tokenIds);
            if (finish !== undefined) reject(new Error(`It ended with ${finish}.`));
          },
          onError: resolve,
        });
      });
      await until(patienceMs, 'More tokens than the smaller context holds', () => ids.length > 30);
      const small = { command: () => fakeCommand('--max-model-len', String(smaller)) };
      assert.is(await within(patienceMs, 'The new runner', supervisor.replaceRunner(small)), undefined);
      const { code, message, retriable } = await within(patienceMs, 'The failure', failed);
      assert.is(code, 'OUT_OF_MEMORY');
      assert.is(retriable, false);
      assert.match(message, `holds ${smaller} tokens`);
      assert.equal(ids, answerOf(prompt, requestOf(prompt, 1).sampling.seed, ids.length));
      if (smaller > 30) assert.is(prompt.length + ids.length, smaller, 'it went on as far as it could');
      // A new request is served.
      await collectExact(supervisor, requestOf([5], 10));
    });
  }
});

test('a runner that is slower than the one before is not taken for one that hangs', async () => {
  await supervised(['--delay-ms', '1'], { limits: { wedgeMs: 500 } }, async ({ supervisor, state }) => {
    await state('ready');
    await collectExact(supervisor, requestOf([7], 200));
    const replaced = supervisor.replaceRunner({ command: () => fakeCommand('--delay-ms', '1000') });
    assert.is(await within(patienceMs, 'The new runner', replaced), undefined);
    await collectExact(supervisor, requestOf([7], 4));
    assert.is(supervisor.status().restarts, 1);
  });
});

test('a runner that becomes ready after its end was requested is not used', async () => {
  const limits = { terminateAfterMs: 1500 };
  await supervised(['--stubborn', '--slow-load', '300'], { limits }, async ({ supervisor, eventsOf }) => {
    const loading = () => (supervisor.status().loadProgress ?? 0) > 0;
    await until(patienceMs, 'The load', loading);
    const replaced = supervisor.replaceRunner({ command: () => fakeCommand('--max-model-len', '2000') });
    assert.is(await within(patienceMs, 'The new runner', replaced), undefined);
    assert.is(supervisor.status().info?.maxModelLen, 2000);
    assert.is(eventsOf('model_load_complete').length, 1);
  });
});

test('a plan that comes while another is prepared is prepared itself', async () => {
  let fail = (_: Error): void => {};
  const prepare = () => new Promise<undefined>((_, reject) => (fail = reject));
  await supervised([], { prepare }, async ({ supervisor }) => {
    let numPrepared = 0;
    const replaced = supervisor.replaceRunner({
      prepare: async () => {
        numPrepared++;
        return undefined;
      },
      command: () => fakeCommand(),
    });
    fail(new Error('There is no such file.'));
    assert.is(await within(patienceMs, 'The new runner', replaced), undefined);
    assert.is(numPrepared, 1);
  });
});

test('where a runner is failed or not there yet, a new command is another chance', async () => {
  await supervised(['--exit-code', '64'], {}, async ({ supervisor, state }) => {
    await state('failed');
    const replaced = supervisor.replaceRunner({ command: () => fakeCommand() });
    assert.is(await within(patienceMs, 'The new runner', replaced), undefined);
  });
  await supervised(['--slow-load', '60000'], {}, async ({ supervisor }) => {
    const replaced = supervisor.replaceRunner({ command: () => fakeCommand() });
    assert.is(await within(patienceMs, 'The new runner', replaced), undefined);
    assert.is(supervisor.status().state, 'ready');
  });
});

test.run();
