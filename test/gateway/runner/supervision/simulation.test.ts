/**
 * Simulates the supervisor, seed by seed. RUNNEL_TEST_SEED=N runs one seed alone. RUNNEL_TEST_SEEDS=N runs the first N
 * seeds. test/fixtures/simulation has the simulation.
 */
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { faultKinds } from '../../../fixtures/simulation/faults.ts';
import {
  type Breach,
  BrokenPromises,
  emptyCounts,
  type Promised,
  Simulation,
} from '../../../fixtures/simulation/simulation.ts';

const defaultSeeds = 300;

const simulation = suite('simulation');

const { RUNNEL_TEST_SEED: only, RUNNEL_TEST_SEEDS: numSeeds = String(defaultSeeds) } = process.env;
const seeds =
  only === undefined ? Array.from({ length: Number(numSeeds) }, (_, seed) => seed) : [Number(only)];

const counts = emptyCounts();
const broken: (Breach & { readonly seed: number })[] = [];
/** Seeds that failed otherwise. */
const failed: string[] = [];
let numRun = 0;

simulation.before(async () => {
  for (const seed of seeds) {
    numRun += 1;
    try {
      await new Simulation(seed, counts).run();
    } catch (error) {
      if (error instanceof BrokenPromises) broken.push(...error.breaches.map((each) => ({ seed, ...each })));
      else failed.push(`RUNNEL_TEST_SEED=${seed}: ${error}`);
      if (broken.length + failed.length >= 5) break;
    }
  }
  const shown = (map: ReadonlyMap<string, number>) =>
    [...map].map(([name, count]) => `${count} ${name}`).join(', ');
  console.log(`${numRun} seeds, ${counts.events} events, ${counts.deaths} deaths`);
  console.log(`${counts.pauses} pauses, ${counts.filled} contexts filled`);
  console.log(`Outcomes: ${shown(counts.outcomes)}`);
  console.log(`Faults: ${shown(counts.faults)}`);
  console.log(`Logged: ${shown(counts.logged)}`);
});

function isKept(promised: Promised): void {
  const breaches = broken.filter((breach) => breach.promised === promised);
  assert.is(breaches.map(({ seed, what }) => `RUNNEL_TEST_SEED=${seed}: ${what}`).join('\n'), '');
}

simulation(
  'deaths in a load, in a step, between bytes of a frame, while draining, twice in a row, from outside or by a fault of its own change no token',
  () => isKept('tokens'),
);
simulation('a request that crashes its runners fails after two crashes, and no request beside it does', () =>
  isKept('suspects'),
);
simulation('every request ends in time, once, and is cancelled only by its client', () => isKept('ends'));
simulation('a request is with one runner at a time, and no more runners live than there are places', () =>
  isKept('runners'),
);
simulation('no runner computes for nobody, and none outlives the stop', () => isKept('rest'));
simulation('open requests, tokens that wait and bytes in pipes keep to their bounds', () => isKept('bounds'));

simulation(`${seeds.length} seeds of faults meet each kind of fault and of end`, () => {
  assert.is(failed.join('\n'), '');
  assert.is(numRun, seeds.length, 'every seed was run');
  if (only !== undefined) return;
  for (const kind of faultKinds) assert.ok(counts.faults.has(kind), `there was a fault of the kind ${kind}`);
  assert.ok(counts.pauses > 0, 'there was a pause');
  assert.ok(counts.filled > 0, 'an answer filled the context');
  const notReady = counts.outcomes.get('NOT_READY') ?? 0;
  const numRequests = [...counts.outcomes.values()].reduce((sum, count) => sum + count, 0);
  assert.ok(notReady < numRequests / 10, `${notReady} of ${numRequests} requests found no runner`);
  for (const event of ['request_quarantined', 'breaker_opened', 'breaker_closed'])
    assert.ok(counts.logged.has(event), `${event} was seen`);
});

simulation.run();
