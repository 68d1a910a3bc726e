import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { DEFAULT_MODEL } from '../fixtures/default-model.ts';
import { Gateway, isAlive, type StartOptions } from '../fixtures/gateway.ts';
import { type NativeAnswer, readNativeAnswer } from '../fixtures/native-stream.ts';
import { PATIENCE_MS, until, within } from '../fixtures/within.ts';

/** `npx runnel serve` ends on a signal, whoever sends it and whichever of its processes gets it. */

const test = suite('npx');

const NUM_TOKENS = 80;

interface Served {
  readonly gateway: Gateway;
  /** The pids of the gateway and its runner. */
  readonly pids: readonly number[];
  /** Resolves when a stream has begun. */
  stream(): Promise<{ readonly answer: Promise<NativeAnswer> }>;
}

/** Runs the test over a gateway that npx has started in a process group of its own, and cleans up afterwards. */
async function served(how: StartOptions, body: (served: Served) => Promise<void>): Promise<void> {
  const gateway = await Gateway.startOn(DEFAULT_MODEL, ['--port', '0'], {
    launcher: ['setsid'],
    program: ['npx', 'runnel'],
    ...how,
  });
  const runner = (await (await gateway.ready()).health()).runner.pid ?? 0;
  const pids = [Number(/\) \S (\d+)/.exec(readFileSync(`/proc/${runner}/stat`, 'utf8'))?.[1]), runner];
  try {
    await body({
      gateway,
      pids,
      stream: async () => {
        const request = { job_id: 'a', prompt: 'Once', max_tokens: NUM_TOKENS, temperature: 0 };
        const response = await gateway.post('/execute', request);
        let begun = (): void => {};
        const first = new Promise<void>((resolve) => (begun = resolve));
        const answer = readNativeAnswer(response, begun);
        await Promise.race([first, answer]);
        return { answer };
      },
    });
    await until(PATIENCE_MS, 'The end of gateway and runner', () => !pids.some(isAlive));
    await fetch(`${gateway.url}/health`).then(
      () => assert.unreachable('nobody listens any more'),
      (error: Error) => assert.is((error.cause as NodeJS.ErrnoException).code, 'ECONNREFUSED'),
    );
  } finally {
    for (const pid of pids) if (isAlive(pid)) process.kill(pid, 'SIGKILL');
  }
}

async function expectWhole(answer: Promise<NativeAnswer>): Promise<void> {
  const { last } = await answer;
  assert.is(last.event, 'end');
  assert.is(last.data.tokens_out, NUM_TOKENS);
}

test('SIGTERM or SIGINT to npx alone lets open streams finish, and npx waits for the end of the gateway', async () => {
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    await served({}, async ({ gateway, pids, stream }) => {
      const { answer } = await stream();
      assert.equal(await gateway.stop(signal), { code: 0, signal: null });
      assert.not.ok(pids.some(isAlive), 'npx is the last to end');
      await expectWhole(answer);
    });
  }
});

test('a signal to npx and all that it started, as a terminal sends it, is one signal', async () => {
  await served({}, async ({ gateway, stream }) => {
    const { answer } = await stream();
    const exited = once(gateway.process, 'exit');
    process.kill(-(gateway.process.pid ?? 0), 'SIGINT');
    await expectWhole(answer);
    assert.equal(await within(PATIENCE_MS, 'The end of npx', exited), [0, null]);
  });
});

test('a gateway that outlives npx finishes open requests and ends', async () => {
  // dash dies of the signal that npx passes on and does not forward it to its child. Every Debian has dash.
  const cases: readonly [NodeJS.ProcessEnv, NodeJS.Signals][] = [
    [{}, 'SIGKILL'],
    [{ npm_config_script_shell: 'dash' }, 'SIGTERM'],
  ];
  for (const [env, signal] of cases) {
    await served({ env }, async ({ gateway, stream }) => {
      const { answer } = await stream();
      await gateway.stop(signal);
      await expectWhole(answer);
      await until(PATIENCE_MS, 'The reason in the log', () => gateway.log.includes('"reason":"npx_gone"'));
    });
  }
});

test.run();
