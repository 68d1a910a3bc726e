import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { valueAt } from '../bench/statistics.ts';
import { DEFAULT_MODEL } from '../fixtures/default-model.ts';
import { areReady, Gateway } from '../fixtures/gateway.ts';
import { killedAnswer } from '../fixtures/killed-answer.ts';

/**
 * Runners are killed under a stream, with two runners and with one, and nothing is lost. The length of pauses is printed
 * but not asserted; docs/reliability.md has figures. `make check` has 200 kills with two runners.
 */

const KILLS = Number(process.env.RUNNEL_TEST_RUNNER_KILLS ?? 10);
const KILLS_OF_ONE = Math.max(3, Math.floor(KILLS / 20));
/** Kills come when the stream has this many tokens, in turn. */
const KILL_AT = [6, 8, 10] as const;

/** The text of an answer, and its longest gap after a kill of its runner when it has killAt tokens. */
async function answer(
  gateway: Gateway,
  seed: number,
  killAt?: number,
): Promise<[text: string, pauseMs: number]> {
  const body = { prompt: 'Once upon a time', max_tokens: 24, seed, temperature: seed % 2 };
  const killed = await killedAnswer(gateway, { job_id: `job ${seed} ${killAt}`, ...body }, killAt);
  return [killed.text, killed.pauseMs ?? 0];
}

const test = suite('many runners');

for (const [number, args, numKills] of [
  ['two runners', ['--runners', '2'], KILLS],
  ['one runner', [], KILLS_OF_ONE],
] as const) {
  test(`${numKills} kills with ${number} change no byte`, async () => {
    const gateway = await (await Gateway.start(DEFAULT_MODEL, ['--backend', 'cpu', ...args])).ready();
    try {
      const expected = [(await answer(gateway, 0))[0], (await answer(gateway, 1))[0]];
      const pauses: number[] = [];
      for (let kill = 0; kill < numKills; kill += 1) {
        await gateway.healthWhere(areReady, 'All runners to be ready');
        const [text, pauseMs] = await answer(gateway, kill % 2, KILL_AT[kill % KILL_AT.length]);
        assert.is(text, expected[kill % 2], `kill ${kill}: no byte differs`);
        pauses.push(pauseMs);
      }
      const { runner } = await gateway.healthWhere(areReady, 'Health');
      assert.equal([runner.restarts, runner.open_requests], [numKills, 0], 'a restart for each kill');
      const [p50, p99, longest] = [0.5, 0.99, 1].map((part) => valueAt(pauses, part).toFixed(0));
      console.log(
        `${numKills} kills with ${number}, 0 streams lost; pause p50 ${p50} ms, p99 ${p99} ms, longest ${longest} ms`,
      );
    } finally {
      await gateway.stop();
    }
  });
}

test.run();
