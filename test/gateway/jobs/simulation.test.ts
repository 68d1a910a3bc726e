/**
 * Simulates calls, seed by seed. RUNNEL_TEST_SEED=N runs one seed alone. RUNNEL_TEST_SEEDS=N runs the first N seeds.
 * test/fixtures/simulation has the simulation.
 */
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { messageOf } from '../../../gateway/errors/thrown.ts';
import { CallSimulation, emptyCallCounts } from '../../fixtures/simulation/call-simulation.ts';
import { acts, stages } from '../../fixtures/simulation/simulated-call.ts';

const defaultSeeds = 60;
/** This many seeds meet every act at every stage. */
const seedsForAll = 300;

const simulation = suite('simulation of calls');

const { RUNNEL_TEST_SEED: only, RUNNEL_TEST_SEEDS: numSeeds = String(defaultSeeds) } = process.env;
const seeds =
  only === undefined ? Array.from({ length: Number(numSeeds) }, (_, seed) => seed) : [Number(only)];

simulation(
  `no promise about calls is broken by cancels, deletions, clients that leave, stops, kills, reloads and long loads at any wait, in ${seeds.length} seeds`,
  async () => {
    const counts = emptyCallCounts();
    const broken: string[] = [];
    let numRun = 0;
    for (const seed of seeds) {
      numRun += 1;
      try {
        await new CallSimulation(seed, counts).run();
      } catch (error) {
        broken.push(`RUNNEL_TEST_SEED=${seed}: ${messageOf(error)}`);
        if (broken.length === 5) break;
      }
    }
    const shown = (map: ReadonlyMap<string, number>) =>
      [...map]
        .sort()
        .map(([name, count]) => `${count} ${name}`)
        .join('; ');
    console.log(`${numRun} seeds, ${counts.events} events, ${counts.calls} calls, ${counts.lives} gateways`);
    console.log(`Acts: ${shown(counts.acts)}`);
    console.log(`Outcomes: ${shown(counts.outcomes)}`);
    console.log(`Faults: ${shown(counts.faults)}`);
    for (const each of broken) console.log(each);
    assert.is(broken.length, 0, broken.join('\n'));
    assert.is(numRun, seeds.length, 'every seed was run');
    if (only !== undefined || numRun < seedsForAll) return;
    for (const act of acts)
      for (const stage of stages)
        assert.ok(counts.acts.has(`${act}, ${stage}`), `there was ${act} at the stage ${stage}`);
  },
);

simulation.run();
