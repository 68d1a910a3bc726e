/** kill -9 at random moments, again and again: no stream loses a token, repeats one, or ends twice. */
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { Backoff, burstWindowMs } from '../../../../gateway/runner/supervision/restarts.ts';
import { collectExact, patienceMs, requestOf, supervised } from '../../../fixtures/supervised.ts';
import { until, within } from '../../../fixtures/within.ts';

/** RUNNEL_TEST_KILLS: how many kills at moments that differ from run to run. */
const numKills = Number(process.env.RUNNEL_TEST_KILLS ?? 15);
/** The kills of the seed below. */
const numEarlyKills = 50;
const numStreams = 4;
const seedOfEarlyKills = 920_284;

/** mulberry32, so that a run can be repeated by its seed. */
function randomOf(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

const kills = suite('kills');

kills(`${numKills} kills under ${numStreams} streams change no token`, () =>
  killAtRandom(Number(process.env.RUNNEL_TEST_SEED ?? Date.now() % 1_000_000), numKills),
);

// This seed kills several runners in a row that are not ready yet. That once counted against the streams.
kills(`nor do those of seed ${seedOfEarlyKills}`, () => killAtRandom(seedOfEarlyKills, numEarlyKills));

async function killAtRandom(seed: number, count: number): Promise<void> {
  console.log(`RUNNEL_TEST_SEED=${seed}`);
  const random = randomOf(seed);
  // A Backoff that never waits: Backoff has its own tests, and here, where runners are also killed before they are
  // ready, waiting would only cost time.
  let nowMs = 0;
  const backoff = new Backoff(() => (nowMs += burstWindowMs), Math.random);
  await supervised(['--delay-ms', '1'], { backoff }, async ({ supervisor, state, kill }) => {
    await state('ready');
    let isOver = false;
    let numAnswers = 0;
    const streams = Array.from({ length: numStreams }, async (_, stream) => {
      for (let round = 0; !isOver; round += 1) {
        const sampling = { ...requestOf([], 0).sampling, seed: BigInt(round) };
        const length = 1 + Math.floor(random() * 200);
        await collectExact(supervisor, requestOf([stream, round % 1000], length, { sampling }));
        numAnswers += 1;
      }
    });
    const all = Promise.all(streams);
    const killing = (async () => {
      for (let round = 0; round < count; round += 1) {
        // Kills mostly in the middle of streams, and sometimes while the next runner starts or loads.
        if (random() < 0.8) await state('ready');
        await new Promise((resolve) => setTimeout(resolve, random() * 60));
        await until(patienceMs, 'a runner to kill', () => supervisor.status().pid !== undefined);
        await kill();
      }
      isOver = true;
    })();
    await within(120_000, `the end of all streams (seed ${seed})`, Promise.all([killing, all]));
    assert.is(supervisor.status().restarts >= count, true);
    assert.ok(numAnswers >= numStreams);
    assert.is(supervisor.status().openRequests, 0);
  });
}

kills.run();
