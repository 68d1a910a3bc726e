/** Deaths of the runner, by its own fault and from outside: every stream goes on, or ends with a reason. */
import { readFileSync } from 'node:fs';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { Backoff, burstRestarts } from '../../../gateway/runner/backoff.ts';
import { maxFruitlessStarts } from '../../../gateway/runner/succession.ts';
import { answerOf } from '../../fixtures/fake-tokens.ts';
import {
  collect,
  collectExact,
  fakeCommand,
  generationErrorOf,
  patienceMs,
  requestOf,
  supervised,
  withDirectory,
} from '../../fixtures/supervised.ts';
import { until } from '../../fixtures/within.ts';

const recovery = suite('recovery');

recovery(
  'the resumed frame carries the prompt, the emitted ids, their number, and all else as it was',
  async () => {
    await withDirectory(async (directory) => {
      const flags = ['--delay-ms', '5', '--echo-file', directory.path('echo')];
      await supervised(flags, {}, async ({ supervisor, state, kill }) => {
        await state('ready');
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
      });
    });
  },
);

recovery('a paused stream is paused on the next runner, too', async () => {
  await withDirectory(async (directory) => {
    await supervised(['--echo-file', directory.path('echo')], {}, async ({ supervisor, state, kill }) => {
      await state('ready');
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
  });
});

recovery('a consumer that does not read holds up nobody when its stream is a suspect', async () => {
  await withDirectory(async (directory) => {
    await supervised(['--echo-file', directory.path('echo')], {}, async ({ supervisor, state }) => {
      await state('ready');
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
  });
});

for (const lie of ['index', 'id', 'vocab', 'after-end', 'garbage', 'oversize']) {
  recovery(`a runner that lies (${lie}) is killed, and the streams go on`, async () => {
    await withDirectory(async (directory) => {
      const flags = ['--lie', lie, '--crash-after', '12', '--crash-file', directory.write('fault', '')];
      await supervised(flags, {}, async ({ supervisor, state, eventsOf }) => {
        await state('ready');
        const lengths = [10, 40, 40];
        await Promise.all(lengths.map((length, id) => collectExact(supervisor, requestOf([id], length))));
        await until(patienceMs, 'the restart', () => supervisor.status().restarts === 1);
        assert.equal(
          eventsOf('runner_exited').map(({ signal }) => signal),
          ['SIGKILL'],
        );
      });
    });
  });
}

for (const place of ['hello', 'load']) {
  recovery(`a death at ${place} is followed by another start`, async () => {
    await withDirectory(async (directory) => {
      const flags = ['--crash-at', place, '--crash-file', directory.write('fault', '')];
      await supervised(flags, {}, async ({ supervisor, state }) => {
        await state('ready');
        assert.is(supervisor.status().restarts, 1);
        await collectExact(supervisor, requestOf([1], 5));
      });
    });
  });
}

recovery('a death between two bytes of a frame loses and repeats nothing', async () => {
  await withDirectory(async (directory) => {
    const fault = directory.write('fault', '');
    const flags = ['--crash-at', 'frame', '--crash-after', '9', '--crash-file', fault, '--split'];
    await supervised(flags, {}, async ({ supervisor, state, eventsOf }) => {
      await state('ready');
      await Promise.all([1, 2].map((id) => collectExact(supervisor, requestOf([id], 30))));
      assert.equal(
        eventsOf('runner_exited').map(({ signal }) => signal),
        ['SIGSEGV'],
      );
    });
  });
});

recovery('a double Ready is a lie, too', async () => {
  await withDirectory(async (directory) => {
    const flags = ['--lie', 'double-ready', '--crash-file', directory.write('fault', '')];
    await supervised(flags, {}, async ({ supervisor, state, eventsOf }) => {
      await until(patienceMs, 'the restart', () => supervisor.status().restarts === 1);
      await state('ready');
      assert.match(String(eventsOf('runner_exited')[0]?.reason), /sent ready in phase serving/);
    });
  });
});

recovery('another protocol version fails for good and names both', async () => {
  await supervised(['--wrong-version'], {}, async ({ supervisor, state }) => {
    await state('failed');
    assert.match(supervisor.status().reason ?? '', /version 999, the gateway version 1/);
    const error = await generationErrorOf(collect(supervisor, requestOf([1], 1)));
    assert.equal([error.code, error.retriable], ['NOT_READY', false]);
    assert.is(supervisor.status().restarts, 0);
  });
});

recovery(
  'a bad model file fails with the runner’s sentence, is not tried again, and is when it changes',
  async () => {
    await withDirectory(async (directory) => {
      const modelPath = directory.write('model', 'bad');
      const flags = ['--model', modelPath, '--exit-code', '65', '--failure', 'The magic is 0x00.'];
      await supervised(flags, { modelPath, modelPollMs: 5 }, async ({ supervisor, state, eventsOf }) => {
        await state('failed');
        assert.is(supervisor.status().reason, 'The magic is 0x00.');
        assert.is(eventsOf('model_failed')[0]?.reason, 'The magic is 0x00.');
        const error = await generationErrorOf(collect(supervisor, requestOf([1], 1)));
        assert.equal([error.code, error.retriable, error.message], ['NOT_READY', true, 'The magic is 0x00.']);
        assert.is(eventsOf('model_load_start').length, 1);
        directory.write('model', 'good');
        await state('ready');
        await collectExact(supervisor, requestOf([1], 5, { modelIdentity: 'good' }));
        assert.is(eventsOf('model_load_start').length, 2);
      });
    });
  },
);

recovery('open streams fail when their model is gone, and when it is replaced', async () => {
  await withDirectory(async (directory) => {
    const modelPath = directory.write('model', 'one');
    const flags = ['--model', modelPath, '--exit-code', '65', '--delay-ms', '5'];
    await supervised(flags, { modelPath, modelPollMs: 5 }, async ({ supervisor, state, kill }) => {
      await state('ready');
      const replaced = generationErrorOf(
        collect(supervisor, requestOf([1], 1000, { modelIdentity: 'one' }), {
          onBatch: async (ids) => {
            if (ids.length !== 3) return;
            directory.write('model', 'two');
            await kill();
          },
        }),
      );
      const first = await replaced;
      assert.equal([first.code, first.retriable], ['INFERENCE_FAILED', true]);
      assert.match(first.message, /replaced/);
      await state('ready');
      assert.is(supervisor.status().info?.modelIdentity, 'two');

      const stale = await generationErrorOf(
        collect(supervisor, requestOf([1], 1000, { modelIdentity: 'one' })),
      );
      assert.equal([stale.code, stale.retriable], ['NOT_READY', true], 'ids of the old model are not sent');
      const broken = generationErrorOf(collect(supervisor, requestOf([1], 1000, { modelIdentity: 'two' })));
      directory.write('model', 'bad');
      await kill();
      assert.is((await broken).code, 'INFERENCE_FAILED');
      await state('failed');
    });
  });
});

recovery('a change of numerics is said, and the streams go on', async () => {
  await withDirectory(async (directory) => {
    const numerics = directory.write('numerics', 'avx2');
    await supervised(
      ['--numerics-file', numerics, '--delay-ms', '5'],
      {},
      async ({ supervisor, state, kill, eventsOf }) => {
        await state('ready');
        const onBatch = async (ids: readonly number[]) => {
          if (ids.length !== 3) return;
          directory.write('numerics', 'avx512');
          await kill();
        };
        await collectExact(supervisor, requestOf([1], 30), { onBatch });
        assert.equal(
          eventsOf('numerics_changed').map(({ from, to }) => [from, to]),
          [['avx2', 'avx512']],
        );
        assert.is(supervisor.status().info?.numericsId, 'avx512');
      },
    );
  });
});

recovery(
  'a request that kills its runner, and again when it is alone with it, is failed and refused',
  async () => {
    await supervised(['--poison', '7'], {}, async ({ supervisor, state, eventsOf }) => {
      await state('ready');
      const error = await generationErrorOf(collect(supervisor, requestOf([7, 1], 10)));
      assert.equal([error.code, error.retriable], ['RUNNER_CRASHED', false]);
      assert.is(eventsOf('request_quarantined').length, 1);
      await state('ready');
      const sampling = { ...requestOf([], 0).sampling, seed: 43n };
      const again = await generationErrorOf(collect(supervisor, requestOf([7, 1], 10, { sampling })));
      assert.is(again.code, 'RUNNER_CRASHED', 'another seed makes it no other request');
      await collectExact(supervisor, requestOf([8, 1], 10));
      assert.is(supervisor.status().restarts, 2);
    });
  },
);

recovery('a stream that gains a token in each life goes on', async () => {
  // Of two tokens: the canary's comes first in every life but the first.
  const flags = ['--crash-after', '2', '--crash-signal', 'exit:70'];
  await supervised(flags, {}, async ({ supervisor, state }) => {
    await state('ready');
    await collectExact(supervisor, requestOf([1], 5));
    assert.ok(supervisor.status().restarts >= 3);
  });
});

recovery('a runner that cannot compute gets nobody’s stream', async () => {
  // Every life but the first dies at its first token, which is the canary's.
  let starts = 0;
  const command = () => fakeCommand('--crash-at', 'frame', '--crash-after', starts++ === 0 ? '3' : '1');
  await supervised([], { command }, async ({ supervisor, state, eventsOf }) => {
    await state('ready');
    const error = await generationErrorOf(collect(supervisor, requestOf([1], 10)));
    assert.equal([error.code, error.retriable], ['INFERENCE_FAILED', true]);
    assert.is(eventsOf('request_quarantined').length, 0);
    assert.is(eventsOf('model_load_complete').length, 1);
  });
});

recovery(
  'after too many crashes no runner comes for a while, and clients are told for how long',
  async () => {
    const flags = ['--poison', '7'];
    await supervised(flags, {}, async ({ supervisor, state }) => {
      await state('ready');
      for (let prompt = 0; supervisor.status().state !== 'failed'; prompt += 1) {
        assert.ok(prompt < 3, 'six deaths are enough');
        await generationErrorOf(collect(supervisor, requestOf([7, prompt], 10)));
        await until(patienceMs, 'a verdict', () => /ready|failed/.test(supervisor.status().state));
      }
      const error = await generationErrorOf(collect(supervisor, requestOf([1], 1)));
      assert.equal([error.code, error.retriable, supervisor.status().restarts], ['NOT_READY', true, 5]);
      assert.ok(Number(error.retryAfterSec) > 20, `${error.retryAfterSec} s`);
    });
  },
);

recovery('a runner that is stopped, or computes no more, is replaced, and the streams go on', async () => {
  const short = { silenceMs: 1500, wedgeMs: 1500, unmeasuredWedgeMs: 1500, abortGraceMs: 200 };
  for (const [flags, limits, sentence] of [
    [
      ['--crash-signal', 'SIGSTOP', '--crash-after', '5'],
      { ...short, wedgeMs: 60_000 },
      /was silent for 1.5 s/,
    ],
    [['--wedge', '1'], { ...short, silenceMs: 60_000 }, /in decode for 2 s without finishing step 1\./],
  ] as const) {
    await withDirectory(async (directory) => {
      const options = [...flags, '--delay-ms', '5', '--crash-file', directory.write('fault', '')];
      await supervised(options, { limits }, async ({ supervisor, state, eventsOf }) => {
        await state('ready');
        await Promise.all([1, 2].map((id) => collectExact(supervisor, requestOf([id], 40))));
        assert.equal(eventsOf('runner_exited').length, 1);
        assert.match(String(eventsOf('runner_exited')[0]?.reason), sentence);
      });
    });
  }
});

recovery('kills from outside cost no attempt and no delay', async () => {
  const delays: number[] = [];
  const backoff = new Backoff(
    () => 0,
    () => 0.5,
  );
  await supervised(
    ['--hang', 'token', '--crash-after', '0'],
    { backoff, limits: { wedgeMs: 0 } },
    async ({ supervisor, state, kill, eventsOf }) => {
      const open = generationErrorOf(collectWhenReady());
      for (let round = 0; round < 4; round += 1) {
        await state('ready');
        await until(patienceMs, 'the request', () => supervisor.status().openRequests === 1);
        await kill();
      }
      await state('ready');
      assert.is(supervisor.status().openRequests, 1);
      delays.push(...eventsOf('runner_restarting').map(({ delayMs }) => Number(delayMs)));
      assert.equal(delays, [0, 0, 0, 0]);
      void supervisor.stop(0);
      assert.is((await open).code, 'INFERENCE_FAILED');

      async function collectWhenReady() {
        await state('ready');
        return collect(supervisor, requestOf([1], 10));
      }
    },
  );
});

recovery('kills of runners that are not ready yet end no stream; they delay the next start', async () => {
  const numKills = Math.max(maxFruitlessStarts, burstRestarts) + 1;
  let numStarts = 0;
  // The first is ready at once, and the last; those between hang in their load until they are killed.
  const command = () => {
    const isKilled = numStarts >= 1 && numStarts <= numKills;
    numStarts += 1;
    return fakeCommand('--delay-ms', '5', ...(isKilled ? ['--hang', 'load'] : []));
  };
  await supervised([], { command }, async ({ supervisor, state, kill, eventsOf }) => {
    await state('ready');
    let hasBegun = false;
    const onBatch = async () => {
      if (hasBegun) return;
      hasBegun = true;
      await kill();
      for (let killed = 0; killed < numKills; killed += 1) {
        await until(patienceMs, 'a load', () => supervisor.status().loadProgress !== undefined);
        await kill();
      }
    };
    await collectExact(supervisor, requestOf([1], 40), { onBatch });
    const isDelayed = eventsOf('runner_restarting').map(({ delayMs }) => Number(delayMs) > 0);
    assert.is(isDelayed.length, 1 + numKills);
    // The one that was ready is killed at no cost, and a burst is free.
    assert.is(isDelayed.indexOf(true), 1 + burstRestarts);
  });
});

recovery('while it recovers, requests wait within the bound, and can be cancelled', async () => {
  await supervised(['--slow-load', '300'], { maxOpenRequests: 2 }, async ({ supervisor, state, kill }) => {
    await state('ready');
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
});

recovery('a Hello that never comes, and a load without progress, are bounded', async () => {
  for (const [place, limits, sentence] of [
    ['hello', { helloTimeoutMs: 1500 }, /did not say Hello within 1500 ms/],
    ['load', { loadStallMs: 300 }, /made no progress in loading for 300 ms/],
  ] as const) {
    await withDirectory(async (directory) => {
      const flags = ['--hang', place, '--crash-file', directory.write('fault', '')];
      await supervised(flags, { limits }, async ({ state, eventsOf }) => {
        await state('ready');
        assert.match(String(eventsOf('runner_exited')[0]?.reason), sentence);
      });
    });
  }
});

recovery(
  'a runner that cannot be started, or says nothing and exits, is tried again with a delay',
  async () => {
    const commands = [
      { file: '/no/such/runner', args: [] },
      { file: process.execPath, args: ['-e', 'console.error("the last words"); process.exit(71)'] },
      fakeCommand(),
    ];
    let index = 0;
    const command = () => commands[index++] ?? fakeCommand();
    await supervised([], { command }, async ({ state, eventsOf }) => {
      await state('ready');
      const [first, second] = eventsOf('runner_exited');
      assert.match(String(first?.reason), /could not be started: spawn \/no\/such\/runner ENOENT/);
      assert.match(String(second?.reason), /status 71: the system refused/);
      assert.is(second?.stderrTail, 'the last words\n');
    });
  },
);

recovery('streams do not wait for ever for runners that die before they are ready', async () => {
  let starts = 0;
  const dying = { file: process.execPath, args: ['-e', 'process.exit(71)'] };
  const command = () => (starts++ === 0 ? fakeCommand('--delay-ms', '5') : dying);
  await supervised([], { command }, async ({ supervisor, state, kill }) => {
    await state('ready');
    const error = await generationErrorOf(
      collect(supervisor, requestOf([1], 1000), {
        onBatch: async (ids) => {
          if (ids.length === 3) await kill();
        },
      }),
    );
    assert.equal([error.code, error.retriable], ['INFERENCE_FAILED', true]);
    assert.is(supervisor.status().openRequests, 0);
    const refused = await generationErrorOf(collect(supervisor, requestOf([1], 5)));
    assert.equal([refused.code, refused.retryAfterSec], ['NOT_READY', 1], 'and no new one begins to wait');
  });
});

recovery('what keeps a start from being prepared is the reason, until the file changes', async () => {
  await withDirectory(async (directory) => {
    const modelPath = directory.write('model', 'broken');
    const prepare = async () => {
      if (readFileSync(modelPath, 'utf8') === 'broken') throw new Error('The tokenizer is broken.');
    };
    await supervised([], { prepare, modelPath, modelPollMs: 5 }, async ({ supervisor, state, eventsOf }) => {
      await state('failed');
      assert.is(supervisor.status().reason, 'The tokenizer is broken.');
      assert.is(eventsOf('runner_started').length, 0);
      directory.write('model', 'mended');
      await state('ready');
    });
  });
});

recovery('a flood on stderr stops neither the runner nor the log', async () => {
  await supervised(['--stderr-bytes', '3500000'], {}, async ({ supervisor, state, eventsOf }) => {
    await state('ready');
    await collectExact(supervisor, requestOf([1], 20));
    assert.ok(eventsOf('runner_stderr').length < 100_000);
  });
});

recovery('scores of a prompt whose runner died among them are told once', async () => {
  await withDirectory(async (directory) => {
    const crash = [
      '--crash-at',
      'prompt',
      '--crash-after',
      '0',
      '--crash-file',
      directory.write('fault', ''),
    ];
    await supervised([...crash, '--echo-file', directory.path('echo')], {}, async ({ supervisor, state }) => {
      await state('ready');
      const promptIds = [1, 2, 3, 4, 5, 6, 7];
      const scores: number[][] = [];
      const request = requestOf(promptIds, 20, { promptLogprobs: 0 });
      for await (const batch of supervisor.generate(request, new AbortController().signal)) {
        if (batch.promptLogprobs) scores.push(batch.promptLogprobs.map(({ logprob }) => logprob));
      }
      assert.equal(scores, [[-1, -2, -3, -4, -5, -6]]);
      assert.is(supervisor.status().restarts, 1);
      const asked = directory.jsonLines('echo').map(({ generate }) => generate?.promptLogprobs);
      assert.equal(asked, [0, undefined, 0, undefined], 'asked, the canary, alone again, and without them');
    });
  });
});

recovery('what was cached is what the first runner found', async () => {
  await supervised(['--delay-ms', '5'], {}, async ({ supervisor, state, kill }) => {
    await state('ready');
    const cached: number[] = [];
    let isKilled = false;
    for await (const { first, firstIndex } of supervisor.generate(
      requestOf([1, 2, 3], 30),
      new AbortController().signal,
    )) {
      if (first !== undefined) cached.push(first.numCachedTokens);
      if (firstIndex < 5 || isKilled) continue;
      isKilled = true;
      await kill();
    }
    assert.equal(cached, [2]);
    assert.is(supervisor.status().restarts, 1);
  });
});

recovery('statistics are the runner’s of now, counters go on', async () => {
  await supervised(['--stats-ms', '10'], {}, async ({ supervisor, state, kill }) => {
    await state('ready');
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
});

recovery.run();
