import { basename } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { childrenOf } from '../fixtures/child-processes.ts';
import { DEFAULT_MODEL } from '../fixtures/default-model.ts';
import { Gateway, isAlive } from '../fixtures/gateway.ts';
import { killAll, runAll } from '../fixtures/killed-streams.ts';
import { variedRequests } from '../fixtures/varied-requests.ts';
import { until } from '../fixtures/within.ts';

/**
 * A runner that is several processes, each with a part of every matrix, gives the answers of one process, byte for byte, also
 * when any of its processes is killed in the middle of them. `make check` has a hundred kills.
 */

const KILLS = Number(process.env.RUNNEL_TEST_RANK_KILLS ?? 3);
const NUM_RANKS = 3;
const NUM_TOKENS = 40;
const END_MS = 20_000;

const test = suite('tensor parallel');

const requests = variedRequests(basename(DEFAULT_MODEL, '.gguf'), NUM_TOKENS);

/** The processes of a runner: it, and those that it has started. */
function ranksOf(runner: number): readonly number[] {
  return [runner, ...childrenOf(runner)];
}

test(`${KILLS} kills of each of ${NUM_RANKS} ranks in turn change no byte`, async () => {
  const one = await (await Gateway.start(DEFAULT_MODEL, ['--backend', 'cpu'])).ready();
  let numBytes = 0;
  const expected = await runAll(one, requests, -1, (count) => {
    numBytes += count;
  });
  await one.stop();

  const ranks = ['--tensor-parallel-size', String(NUM_RANKS)];
  const gateway = await (await Gateway.start(DEFAULT_MODEL, ['--backend', 'cpu', ...ranks])).ready();
  const started: number[] = [];
  let numKills = 0;
  try {
    const { interrupted } = await killAll(gateway, requests, expected, numBytes, KILLS, (runner) => {
      const processes = ranksOf(runner);
      assert.is(processes.length, NUM_RANKS);
      started.push(...processes);
      numKills += 1;
      return processes[numKills % NUM_RANKS] as number;
    });
    assert.ok(Math.min(...interrupted) > 0, `open when a rank was killed: ${interrupted}`);
    assert.match(gateway.log, 'Another rank of this model');
    // The next runner waits for the last process of the one before, and goes on with what it has computed.
    assert.not.match(gateway.log, 'kv_cache_dropped');
    await until(END_MS, 'All ranks of dead runners to end', () => !started.some(isAlive));
  } finally {
    await gateway.stop();
  }
  console.log(`${numKills} kills of ranks, 0 lost`);
});

test.run();
