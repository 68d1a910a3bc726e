/**
 * The runner dies in every phase of its life: during the load, between the chunks of a prompt, in the middle of a step,
 * between two bytes of a frame, while the server drains, twice in a row, and by its own fault. No byte of an answer
 * changes in any case.
 */
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { inParallel } from '../fixtures/in-parallel.ts';
import { Random } from '../fixtures/random.ts';
import {
  closeTinyModel,
  type Death,
  loadTinyModel,
  type ServedOptions,
  type ServedTiny,
  servedTiny,
  TINY_ID,
} from '../fixtures/served-tiny.ts';
import { type VariedRequest, variedRequests } from '../fixtures/varied-requests.ts';

const ROUNDS = Number(process.env.RUNNEL_TEST_ROUNDS ?? 5);
const NUM_TOKENS = 64;
/** Makes prompts take several steps. */
const SMALL_CHUNKS = ['--max-num-batched-tokens', '8'];
const NUM_CHUNKS = 3;
/** One token per step, so that the planned step is met. The expected answers come from a runner that may draft. */
const PLAIN = ['--speculation', 'off'];
/**
 * The places to die at. Loading the tiny model has six per layer and three more. A step has five operations per layer and two
 * more.
 */
const NUM_LOADS = 15;
const NUM_OPERATIONS = 12;

const random = new Random();
const requests = variedRequests(TINY_ID, NUM_TOKENS);
const expected = new Map<VariedRequest, string>();

const at = (moment: string, number: number): Death => ({ fault: `kill@${moment}:${number}` });
const step = () => at('step', 1 + random.below(NUM_TOKENS - 1));

interface Phase {
  readonly name: string;
  /** How the runners die in this round. */
  readonly deaths: (round: number) => readonly Death[];
  readonly options?: Omit<ServedOptions, 'deaths'>;
  readonly alsoTrue?: (served: ServedTiny) => void;
}

const phases: readonly Phase[] = [
  { name: 'load', deaths: (round) => [step(), at('load', round % NUM_LOADS)] },
  {
    name: 'prefill',
    deaths: (round) => [at('step', round % NUM_CHUNKS), at('step', 1)],
    options: { flags: SMALL_CHUNKS },
  },
  {
    name: 'step',
    deaths: (round) => [at('operation', round % (4 * NUM_OPERATIONS))],
    options: { flags: SMALL_CHUNKS },
  },
  {
    name: 'drain',
    deaths: () => [step()],
    options: { drains: true },
    alsoTrue: ({ events }) => {
      const names = events.map(({ event }) => event);
      const drained = names.indexOf('runner_draining');
      assert.ok(
        drained !== -1 && drained < names.indexOf('runner_exited'),
        'the server drains before the death',
      );
    },
  },
  {
    name: 'twice',
    deaths: () => [at('step', 1 + random.below(NUM_TOKENS - 3)), at('step', random.below(2))],
  },
  // A crash of its own: every request that it had is a suspect and first goes through an isolation run.
  { name: 'crash', deaths: () => [{ fault: `abort@step:${1 + random.below(NUM_TOKENS - 1)}` }] },
];

async function runRound({ deaths, options, alsoTrue }: Phase, round: number): Promise<void> {
  const request = requests[round % requests.length] as VariedRequest;
  const planned = deaths(round);
  const where = `${request.name}, ${JSON.stringify(planned)}, seed ${random.seed}`;
  const flags = [...PLAIN, ...(options?.flags ?? [])];
  await servedTiny({ ...options, deaths: planned, flags }, async (served) => {
    const { digest } = await served.ask(request);
    assert.is(digest, expected.get(request), where);
    assert.is(served.supervisor.status().restarts, planned.length, where);
    alsoTrue?.(served);
  });
}

/** How many bytes the runner writes for this request, from its Hello on. */
async function bytesOf(request: VariedRequest): Promise<number> {
  let numBytes = 0;
  await servedTiny({ deaths: [{ afterBytes: Number.POSITIVE_INFINITY }] }, async (served) => {
    await served.ask(request);
    numBytes = served.numBytes();
  });
  return numBytes;
}

const test = suite('deaths');

test.before(async () => {
  console.log(`seed ${random.seed}`);
  await loadTinyModel();
  for (const request of requests) {
    await servedTiny({}, async ({ ask }) => {
      expected.set(request, (await ask(request)).digest);
    });
  }
});
test.after(closeTinyModel);

for (const phase of phases) {
  test(`${phase.name}: a crash there changes no byte`, async () => {
    const numRun = await inParallel(Array(ROUNDS).keys(), (round) => runRound(phase, round));
    assert.is(numRun, ROUNDS);
    console.log(`${phase.name}: ${numRun} rounds, 0 lost`);
  });
}

test('frames: a crash between any two bytes of them changes no byte', async () => {
  // With log-probabilities, frames are so long that their length takes two bytes.
  const request = requests.find(({ body }) => body.logprobs === 5) as VariedRequest;
  const numBytes = await bytesOf(request);
  // Consecutive bytes, so that every place in a frame is met.
  const first = Math.floor(numBytes / 4) + random.below(Math.floor(numBytes / 2));
  const numRun = await inParallel(Array(ROUNDS).keys(), async (round) => {
    const afterBytes = first + round;
    await servedTiny({ deaths: [{ afterBytes }] }, async ({ ask, supervisor }) => {
      const where = `after ${afterBytes} of ${numBytes} bytes, seed ${random.seed}`;
      assert.is((await ask(request)).digest, expected.get(request), where);
      assert.is(supervisor.status().restarts, 1, where);
    });
  });
  assert.is(numRun, ROUNDS);
  console.log(`frames: ${numRun} rounds, 0 lost`);
});

test.run();
