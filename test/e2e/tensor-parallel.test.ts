import { basename } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { childrenOf } from '../fixtures/child-processes.ts';
import { DEFAULT_MODEL } from '../fixtures/default-model.ts';
import { Gateway, isAlive } from '../fixtures/gateway.ts';
import { killAll, runAll } from '../fixtures/killed-streams.ts';
import { type VariedRequest, variedRequests } from '../fixtures/varied-requests.ts';
import { until } from '../fixtures/within.ts';

/**
 * A runner that is several processes, each with a part of every matrix, gives the answers of one process, byte for byte, also
 * when any of its processes is killed in the middle of them. `make check` has a hundred kills of each of three.
 */

/** Of each rank. */
const KILLS = Number(process.env.RUNNEL_TEST_RANK_KILLS ?? 1);
const NUM_TOKENS = 40;
const END_MS = 20_000;

const test = suite('tensor parallel');

const model = basename(DEFAULT_MODEL, '.gguf');
const schema = { type: 'array', items: { type: 'integer' }, minItems: 20 };
/** Its grammar's state must survive like the tokens. */
const inFormat: VariedRequest = {
  name: 'chat in a format',
  path: '/v1/chat/completions',
  body: {
    model,
    messages: [{ role: 'user', content: 'Count to twenty.' }],
    ...{ max_tokens: NUM_TOKENS, seed: 31, temperature: 0.8, stream: true },
    response_format: { type: 'json_schema', json_schema: { name: 'numbers', strict: true, schema } },
  },
};
const requests = [...variedRequests(model, NUM_TOKENS), inFormat];

/** The processes of a runner: it, and those that it has started. */
function ranksOf(runner: number): readonly number[] {
  return [runner, ...childrenOf(runner)];
}

type Answers = Awaited<ReturnType<typeof runAll>>;

/** The answers of one process, and how many bytes they have. */
async function answersOfOne(): Promise<{ expected: Answers; numBytes: number }> {
  const one = await (await Gateway.start(DEFAULT_MODEL, ['--backend', 'cpu'])).ready();
  try {
    let numBytes = 0;
    const expected = await runAll(one, requests, -1, (count) => {
      numBytes += count;
    });
    return { expected, numBytes };
  } finally {
    await one.stop();
  }
}

let alone: ReturnType<typeof answersOfOne> | undefined;

/** Of the model's 3 KV heads two ranks have two and one, three have one each. */
for (const [numRanks, numKills] of [
  [2, 2],
  [3, 3 * KILLS],
] as const) {
  test(`${numKills} kills of each of ${numRanks} ranks in turn change no byte`, async () => {
    alone ??= answersOfOne();
    const { expected, numBytes } = await alone;
    const ranks = ['--tensor-parallel-size', String(numRanks)];
    const gateway = await (await Gateway.start(DEFAULT_MODEL, ['--backend', 'cpu', ...ranks])).ready();
    const started: number[] = [];
    let numDone = 0;
    try {
      const { interrupted } = await killAll(gateway, requests, expected, numBytes, numKills, (runner) => {
        const processes = ranksOf(runner);
        assert.is(processes.length, numRanks);
        started.push(...processes);
        numDone += 1;
        return processes[numDone % numRanks] as number;
      });
      assert.ok(Math.min(...interrupted) > 0, `open when a rank was killed: ${interrupted}`);
      assert.match(gateway.log, 'Another rank of this model');
      // The next runner waits for the last process of the one before, and goes on with what it has computed.
      assert.not.match(gateway.log, 'kv_cache_dropped');
      await until(END_MS, 'All ranks of dead runners to end', () => !started.some(isAlive));
    } finally {
      await gateway.stop();
    }
    console.log(`${numDone} kills of ranks, 0 lost`);
  });
}

test.run();
