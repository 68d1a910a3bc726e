import { suite } from 'uvu';
import { modelFaultKinds } from '../../fixtures/simulation/faults.ts';
import { ModelSimulation } from '../../fixtures/simulation/model-simulation.ts';
import { Seeds } from '../../fixtures/simulation/seeds.ts';

/** Simulates several models. test/fixtures/simulation has the simulation. */

/** This many seeds meet every kind of fault and of end. */
const seedsForAll = 300;

const simulation = suite('simulation of several models');

const seeds = new Seeds(100);
const outcomes = ['finished', 'NOT_READY', 'QUEUE_FULL', 'TIMEOUT', 'CANCELLED', 'RUNNER_CRASHED'];

simulation(`no promise about models is broken in ${seeds.seeds.length} seeds of faults`, async () => {
  await seeds.run((seed, counts) => new ModelSimulation(seed, counts));
  seeds.assertKept();
  seeds.assertMet('Faults', modelFaultKinds, seedsForAll);
  seeds.assertMet('Unloads', ['memory', 'turn', 'idle', 'asked'], seedsForAll);
  seeds.assertMet('Outcomes', outcomes, seedsForAll);
});

simulation.run();
