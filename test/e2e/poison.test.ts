/**
 * A request crashes the real runner in a batch with others. It alone fails, after at most two crashes in isolation
 * runs, and the others get the tokens that they get without it.
 */
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { GenerateRequest } from '../../gateway/runner/runner.ts';
import { Random } from '../fixtures/random.ts';
import { closeTinyModel, loadTinyModel, type ServedTiny, servedTiny } from '../fixtures/served-tiny.ts';
import { collect, generationErrorOf, patienceMs, requestOf } from '../fixtures/supervised.ts';
import { within } from '../fixtures/within.ts';

const ROUNDS = Number(process.env.RUNNEL_TEST_ROUNDS ?? 5);
const NUM_INNOCENTS = 15;
const MAX_CRASHES = 3;
/** A control token: it is in no text, the canary does not use it, and the innocent requests may not draw it. */
const POISON_ID = 1;
const NUM_TOKENS = 48;

const random = new Random();

function innocents(modelIdentity: string): GenerateRequest[] {
  const { sampling } = requestOf([], 0);
  return Array.from({ length: NUM_INNOCENTS }, (_, index) => {
    const promptIds = Array.from({ length: 3 + index }, (_, place) => 10 + index * 15 + place);
    return requestOf(promptIds, 1 + random.below(NUM_TOKENS), {
      modelIdentity,
      sampling: {
        ...sampling,
        temperature: index % 3 === 0 ? 0 : 1,
        seed: BigInt(random.below(1000)),
        bannedTokenIds: [POISON_ID],
      },
    });
  });
}

function identityOf({ supervisor }: ServedTiny): string {
  return supervisor.status().info?.modelIdentity ?? '';
}

async function answersOf(
  { supervisor }: ServedTiny,
  requests: readonly GenerateRequest[],
): Promise<number[][]> {
  const answers = Promise.all(requests.map((request) => collect(supervisor, request)));
  return within(patienceMs, 'the end of the innocents', answers);
}

const test = suite('poison in the real runner');
test.before(loadTinyModel);
test.after(closeTinyModel);

test(`${ROUNDS} rounds of ${NUM_INNOCENTS} innocents and one that crashes the real runner`, async () => {
  console.log(`seed ${random.seed}`);
  const fault = `abort@token:${POISON_ID}`;
  let numRounds = 0;
  let numCrashes = 0;
  // One server per round, because crashes of many rounds would be a crash loop, which the breaker's tests cover.
  for (let round = 0; round < ROUNDS; round += 1) {
    let requests: GenerateRequest[] = [];
    let expected: number[][] = [];
    await servedTiny({}, async (served) => {
      requests = innocents(identityOf(served));
      expected = await answersOf(served, requests);
    });
    await servedTiny({ deaths: Array(MAX_CRASHES + 1).fill(fault) }, async (served) => {
      const { supervisor, eventsOf } = served;
      const poison = requestOf([20, POISON_ID, 21], 20, { modelIdentity: identityOf(served) });
      const before = random.below(NUM_INNOCENTS);
      const first = answersOf(served, requests.slice(0, before));
      const error = generationErrorOf(collect(supervisor, poison));
      const last = answersOf(served, requests.slice(before));
      assert.is((await error).code, 'RUNNER_CRASHED');
      assert.equal([...(await first), ...(await last)], expected, `round ${round}, seed ${random.seed}`);
      const deaths = eventsOf('runner_exited');
      assert.ok(deaths.length >= 2 && deaths.length <= MAX_CRASHES, `${deaths.length} crashes`);
      assert.ok(deaths.every(({ signal }) => signal === 'SIGABRT'));
      assert.is(eventsOf('request_quarantined').length, 1);
      numCrashes += deaths.length;
    });
    numRounds += 1;
  }
  assert.is(numRounds, ROUNDS);
  console.log(`${numRounds} rounds, ${numRounds * NUM_INNOCENTS} innocents, ${numCrashes} crashes, 0 lost`);
});

test.run();
