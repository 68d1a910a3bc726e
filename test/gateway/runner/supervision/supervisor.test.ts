/** When the next runner starts and when none does, and what waiting requests are told. */
import { readFileSync } from 'node:fs';
import * as assert from 'uvu/assert';
import {
  Backoff,
  burstRestarts,
  maxFruitlessStarts,
} from '../../../../gateway/runner/supervision/restarts.ts';
import { closingSuite } from '../../../fixtures/closing-suite.ts';
import {
  collect,
  collectExact,
  fakeCommand,
  generationErrorOf,
  onceAt,
  patienceMs,
  ready,
  requestOf,
  supervised,
  temporaryDirectory,
} from '../../../fixtures/supervised.ts';
import { until } from '../../../fixtures/within.ts';

const succession = closingSuite('succession');

succession('another protocol version fails for good and names both', async () => {
  const { supervisor, state } = supervised(['--wrong-version']);
  await state('failed');
  assert.match(supervisor.status().reason ?? '', /version 999, the gateway version 3/);
  const error = await generationErrorOf(collect(supervisor, requestOf([1], 1)));
  assert.equal([error.code, error.retriable], ['NOT_READY', false]);
  assert.is(supervisor.status().restarts, 0);
});

succession('a load that fails for want of memory is logged with the device and the bytes', async () => {
  const cases: [exitCode: number, shortage: string, facts: object][] = [
    [71, '1099511627776,0', { requiredBytes: 2 ** 40, availableBytes: 0 }],
    [64, '4096', { requiredBytes: 4096 }],
  ];
  for (const [exitCode, shortage, bytes] of cases) {
    const flags = ['--exit-code', String(exitCode), '--failure', 'It is too small.', '--shortage', shortage];
    const { state, eventsOf } = supervised(flags);
    await state(exitCode === 64 ? 'failed' : 'starting');
    await until(patienceMs, 'A death', () => eventsOf('runner_exited').length > 0);
    const facts = { device: 'fake, no device', ...bytes };
    const factsOf = ({ device, requiredBytes, availableBytes }: Record<string, unknown>) =>
      JSON.parse(JSON.stringify({ device, requiredBytes, availableBytes }));
    assert.equal(factsOf(eventsOf('runner_exited')[0] ?? {}), facts);
    assert.equal(eventsOf('model_failed').map(factsOf), exitCode === 64 ? [facts] : []);
  }
});

succession(
  'a bad model file fails with the runner’s sentence, is not tried again, and is when it changes',
  async () => {
    const directory = temporaryDirectory();
    const modelPath = directory.write('model', 'bad');
    const flags = ['--model', modelPath, '--exit-code', '65', '--failure', 'The magic is 0x00.'];
    const { supervisor, state, eventsOf } = supervised(flags, { modelPath, modelPollMs: 5 });
    await state('failed');
    assert.is(supervisor.status().reason, 'The magic is 0x00.');
    assert.is(eventsOf('model_failed')[0]?.reason, 'The magic is 0x00.');
    const error = await generationErrorOf(collect(supervisor, requestOf([1], 1)));
    assert.equal([error.code, error.retriable, error.message], ['NOT_READY', true, 'The magic is 0x00.']);
    assert.is(eventsOf('model_load_start').length, 1);
    assert.is(eventsOf('model_file_changed').length, 0);
    directory.write('model', 'good');
    await state('ready');
    assert.equal(eventsOf('model_file_changed'), [{ level: 'info', event: 'model_file_changed', modelPath }]);
    assert.equal(eventsOf('model_failed'), [
      {
        ...{ level: 'error', event: 'model_failed', reason: 'The magic is 0x00.' },
        ...{ isRetriable: true, exitCode: 65 },
      },
    ]);
    await collectExact(supervisor, requestOf([1], 5, { modelIdentity: 'good' }));
    assert.is(eventsOf('model_load_start').length, 2);
  },
);

succession('open streams fail when their model is gone, and when it is replaced', async () => {
  const directory = temporaryDirectory();
  const modelPath = directory.write('model', 'one');
  const flags = ['--model', modelPath, '--exit-code', '65', '--delay-ms', '5'];
  const { supervisor, state, kill } = await ready(flags, { modelPath, modelPollMs: 5 });
  const replaced = generationErrorOf(
    collect(supervisor, requestOf([1], 1000, { modelIdentity: 'one' }), {
      onBatch: onceAt(3, async () => {
        directory.write('model', 'two');
        await kill();
      }),
    }),
  );
  const first = await replaced;
  assert.equal([first.code, first.retriable], ['INFERENCE_FAILED', true]);
  assert.match(first.message, /replaced/);
  await state('ready');
  assert.is(supervisor.status().info?.modelIdentity, 'two');

  const stale = await generationErrorOf(collect(supervisor, requestOf([1], 1000, { modelIdentity: 'one' })));
  assert.equal([stale.code, stale.retriable], ['NOT_READY', true], 'ids of the old model are not sent');
  const broken = generationErrorOf(collect(supervisor, requestOf([1], 1000, { modelIdentity: 'two' })));
  directory.write('model', 'bad');
  await kill();
  assert.is((await broken).code, 'INFERENCE_FAILED');
  await state('failed');
});

succession('a runner that cannot compute gets nobody’s stream', async () => {
  // Every runner but the first dies at its first token, which is the canary's.
  let starts = 0;
  const command = () => fakeCommand('--crash-at', 'frame', '--crash-after', starts++ === 0 ? '3' : '1');
  const { supervisor, eventsOf } = await ready([], { command });
  const error = await generationErrorOf(collect(supervisor, requestOf([1], 10)));
  assert.equal([error.code, error.retriable], ['NOT_READY', true]);
  assert.is(eventsOf('request_quarantined').length, 0);
  assert.is(eventsOf('model_load_complete').length, 1);
});

succession('after too many crashes restarts pause, and clients get the remaining time', async () => {
  const flags = ['--poison', '7'];
  const { supervisor } = await ready(flags);
  for (let prompt = 0; supervisor.status().state !== 'failed'; prompt += 1) {
    assert.ok(prompt < 3, 'six deaths are enough');
    await generationErrorOf(collect(supervisor, requestOf([7, prompt], 10)));
    await until(patienceMs, 'a verdict', () => /ready|failed/.test(supervisor.status().state));
  }
  const error = await generationErrorOf(collect(supervisor, requestOf([1], 1)));
  assert.equal([error.code, error.retriable, supervisor.status().restarts], ['NOT_READY', true, 5]);
  assert.ok(Number(error.retryAfterSec) > 20, `${error.retryAfterSec} s`);
});

succession('kills from outside cost no attempt and no delay', async () => {
  const delays: number[] = [];
  const backoff = new Backoff(
    () => 0,
    () => 0.5,
  );
  const { supervisor, state, kill, eventsOf } = supervised(['--hang', 'token', '--crash-after', '0'], {
    backoff,
    limits: { wedgeMs: 0 },
  });
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
});

succession('kills of runners that are not ready yet end no stream; they delay the next start', async () => {
  const numKills = Math.max(maxFruitlessStarts, burstRestarts) + 1;
  let numStarts = 0;
  // The first and the last runner are ready at once. Those between hang in their load until they are killed.
  const command = () => {
    const isKilled = numStarts >= 1 && numStarts <= numKills;
    numStarts += 1;
    return fakeCommand('--delay-ms', '5', ...(isKilled ? ['--hang', 'load'] : []));
  };
  const { supervisor, kill, eventsOf } = await ready([], { command });
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
  // The death of the ready runner costs nothing, and a burst of restarts is free.
  assert.is(isDelayed.indexOf(true), 1 + burstRestarts);
});

succession('a Hello that never comes, and a load without progress, are bounded', async () => {
  for (const [place, limits, sentence] of [
    ['hello', { helloTimeoutMs: 1500 }, /did not say Hello within 1500 ms/],
    ['load', { loadStallMs: 300 }, /made no progress in loading for 300 ms/],
  ] as const) {
    const directory = temporaryDirectory();
    const flags = ['--hang', place, '--crash-file', directory.write('fault', '')];
    const { eventsOf } = await ready(flags, { limits });
    assert.match(String(eventsOf('runner_exited')[0]?.reason), sentence);
  }
});

succession(
  'a runner that cannot be started, or says nothing and exits, is tried again with a delay',
  async () => {
    const commands = [
      { file: '/no/such/runner', args: [] },
      { file: process.execPath, args: ['-e', 'console.error("the last words"); process.exit(71)'] },
      fakeCommand(),
    ];
    let index = 0;
    const command = () => commands[index++] ?? fakeCommand();
    const { eventsOf } = await ready([], { command });
    const [first, second] = eventsOf('runner_exited');
    assert.match(String(first?.reason), /could not be started: spawn \/no\/such\/runner ENOENT/);
    assert.match(String(second?.reason), /status 71: the system refused/);
    assert.is(second?.stderrTail, 'the last words\n');
  },
);

succession('streams do not wait for ever for runners that die before they are ready', async () => {
  let starts = 0;
  const dying = { file: process.execPath, args: ['-e', 'process.exit(71)'] };
  const command = () => (starts++ === 0 ? fakeCommand('--delay-ms', '5') : dying);
  const { supervisor, kill } = await ready([], { command });
  const error = await generationErrorOf(
    collect(supervisor, requestOf([1], 1000), {
      onBatch: onceAt(3, async () => void (await kill())),
    }),
  );
  assert.equal([error.code, error.retriable], ['NOT_READY', true]);
  assert.is(supervisor.status().openRequests, 0);
  const refused = await generationErrorOf(collect(supervisor, requestOf([1], 5)));
  assert.equal([refused.code, refused.retryAfterSec], ['NOT_READY', 1], 'and no new one begins to wait');
  assert.is(supervisor.status().state, 'recovering', 'a gateway that has served is not starting');
});

succession('a runner that gets ready ends the count of those that did not', async () => {
  const dying = { file: process.execPath, args: ['-e', 'process.exit(71)'] };
  let starts = 0;
  // Before each runner that becomes ready, except the first, as many die as are allowed.
  const command = () => (starts++ % maxFruitlessStarts === 0 ? fakeCommand('--delay-ms', '5') : dying);
  const { supervisor, state, kill, eventsOf } = await ready([], { command });
  let numKills = 0;
  const onBatch = async () => {
    if (numKills === 2) return;
    numKills += 1;
    // Tokens of the runner before may come while there is no other yet.
    await state('ready');
    await kill();
  };
  await collectExact(supervisor, requestOf([1], 40), { onBatch });
  assert.is(eventsOf('runner_exited').length, 2 * maxFruitlessStarts);
});

succession('a load has a bound, also one that makes progress', async () => {
  let starts = 0;
  const command = () => fakeCommand(...(starts++ === 0 ? ['--slow-load', '20000'] : []));
  const { eventsOf } = await ready([], { command, limits: { loadTimeoutMs: 3000 } });
  assert.match(String(eventsOf('runner_exited')[0]?.reason), /did not finish loading within 3000 ms/);
});

succession('a failed preparation is the reason reported until the file changes', async () => {
  const directory = temporaryDirectory();
  const modelPath = directory.write('model', 'broken');
  const prepare = async (): Promise<undefined> => {
    if (readFileSync(modelPath, 'utf8') === 'broken') throw new Error('The tokenizer is broken.');
  };
  const { supervisor, state, eventsOf } = supervised([], { prepare, modelPath, modelPollMs: 5 });
  await state('failed');
  assert.is(supervisor.status().reason, 'The tokenizer is broken.');
  assert.is(eventsOf('model_load_start').length, 0, 'no runner was started');
  directory.write('model', 'mended');
  await state('ready');
});

succession.run();
