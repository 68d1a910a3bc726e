import { suite } from 'uvu';
import { CallSimulation } from '../../fixtures/simulation/call-simulation.ts';
import { Seeds } from '../../fixtures/simulation/seeds.ts';
import { acts, parkingStages, stages } from '../../fixtures/simulation/simulated-call.ts';

/** Simulates calls. test/fixtures/simulation has the simulation. */

/** This many seeds meet every act at every stage. */
const seedsForAll = 300;

const simulation = suite('simulation of calls');

const seeds = new Seeds(60);

simulation(
  `no promise about calls is broken by cancels, deletions, parkings, time slices, clients that leave, stops, kills, reloads, long loads and journals that open late at any wait, in ${seeds.seeds.length} seeds`,
  async () => {
    await seeds.run((seed, counts) => new CallSimulation(seed, counts));
    seeds.assertKept();
    const all = acts.flatMap((act) => stages.map((stage) => `${act}, ${stage}`));
    seeds.assertMet('Acts', all, seedsForAll);
    seeds.assertMet('Parkings', parkingStages, seedsForAll);
    seeds.assertMet('Unloads', ['memory', 'turn'], seedsForAll);
  },
);

simulation.run();
