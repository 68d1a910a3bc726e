/**
 * Simulates several models, seed by seed. RUNNEL_TEST_SEED=N runs one seed alone. RUNNEL_TEST_SEEDS=N runs the first N
 * seeds. test/fixtures/simulation has the simulation.
 */
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { modelFaultKinds } from '../../fixtures/simulation/faults.ts';
import { ModelSimulation } from '../../fixtures/simulation/model-simulation.ts';
import { emptyModelCounts } from '../../fixtures/simulation/model-simulation-counts.ts';

const defaultSeeds = 100;
/** This many seeds meet every kind of fault and of end. */
const seedsForAll = 300;

const simulation = suite('simulation of several models');

const { RUNNEL_TEST_SEED: only, RUNNEL_TEST_SEEDS: numSeeds = String(defaultSeeds) } = process.env;
const seeds =
  only === undefined ? Array.from({ length: Number(numSeeds) }, (_, seed) => seed) : [Number(only)];

simulation(`no promise about models is broken in ${seeds.length} seeds of faults`, async () => {
  const counts = emptyModelCounts();
  const broken: string[] = [];
  let numRun = 0;
  for (const seed of seeds) {
    numRun += 1;
    try {
      await new ModelSimulation(seed, counts).run();
    } catch (error) {
      broken.push(`RUNNEL_TEST_SEED=${seed}: ${error instanceof Error ? error.message : error}`);
      if (broken.length === 5) break;
    }
  }
  const shown = (map: ReadonlyMap<string, number>) =>
    [...map].map(([name, count]) => `${count} ${name}`).join(', ');
  console.log(`${numRun} seeds, ${counts.events} events, ${counts.requests} requests`);
  console.log(`${counts.loads} loads, ${counts.evictions} evictions, ${counts.deaths} deaths`);
  console.log(`Evictions: ${shown(counts.unloads)}`);
  console.log(`Outcomes: ${shown(counts.outcomes)}`);
  console.log(`Faults: ${shown(counts.faults)}`);
  assert.is(broken.join('\n'), '');
  assert.is(numRun, seeds.length, 'every seed was run');
  if (only !== undefined) return;
  // Fewer seeds may miss one by chance.
  if (numRun < seedsForAll) return;
  for (const kind of modelFaultKinds)
    assert.ok(counts.faults.has(kind), `there was a fault of the kind ${kind}`);
  for (const reason of ['memory', 'idle', 'asked'])
    assert.ok(counts.unloads.has(reason), `a model was unloaded for ${reason}`);
  for (const outcome of ['finished', 'NOT_READY', 'QUEUE_FULL', 'TIMEOUT', 'CANCELLED', 'RUNNER_CRASHED'])
    assert.ok(counts.outcomes.has(outcome), `a request ended ${outcome}`);
});

simulation.run();
