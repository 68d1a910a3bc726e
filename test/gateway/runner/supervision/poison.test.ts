/** One request crashes every runner that computes it, among others. It alone fails, and the others are right to the byte. */
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { Backoff, burstWindowMs } from '../../../../gateway/runner/supervision/restarts.ts';
import { Random } from '../../../fixtures/random.ts';
import {
  collect,
  collectExact,
  generationErrorOf,
  requestOf,
  supervised,
} from '../../../fixtures/supervised.ts';

const numRounds = Number(process.env.RUNNEL_TEST_ROUNDS ?? 20);
const numInnocents = 15;
const poisonId = 7;

const poison = suite('poison');

poison(`${numRounds} rounds of ${numInnocents} innocents and one that crashes its runner`, async () => {
  const random = new Random();
  console.log(`seed ${random.seed}`);
  let numDeaths = 0;
  // One supervisor per round: six crashes would be a crash loop, which the breaker's test covers.
  for (let round = 0; round < numRounds; round += 1) {
    let nowMs = 0;
    const backoff = new Backoff(() => (nowMs += burstWindowMs), Math.random);
    await supervised(['--poison', String(poisonId), '--delay-ms', '1'], { backoff }, async (runner) => {
      const { supervisor, state, eventsOf } = runner;
      await state('ready');
      const sampling = { ...requestOf([], 0).sampling, seed: BigInt(random.below(1000)) };
      const innocents = Array.from({ length: numInnocents }, (_, index) =>
        collectExact(supervisor, requestOf([100 + index, round], 5 + random.below(60), { sampling })),
      );
      const error = await generationErrorOf(collect(supervisor, requestOf([poisonId, round], 20)));
      assert.is(error.code, 'RUNNER_CRASHED');
      await Promise.all(innocents);
      const deaths = eventsOf('runner_exited').length;
      assert.ok(deaths >= 1 && deaths <= 3, `${deaths} deaths (seed ${random.seed})`);
      numDeaths += deaths;
      assert.is(eventsOf('request_quarantined').length, 1);
    });
  }
  console.log(`${numRounds} rounds, ${numRounds * numInnocents} innocents, ${numDeaths} deaths`);
});

poison.run();
