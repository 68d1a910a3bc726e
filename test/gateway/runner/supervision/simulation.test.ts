import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { faultKinds } from '../../../fixtures/simulation/faults.ts';
import { Seeds } from '../../../fixtures/simulation/seeds.ts';
import { Simulation } from '../../../fixtures/simulation/simulation.ts';

/** Simulates the supervisor. test/fixtures/simulation has the simulation. */

const simulation = suite('simulation');

const seeds = new Seeds(300);

simulation.before(() => seeds.run((seed, counts) => new Simulation(seed, counts)));

simulation(
  'deaths in a load, in a step, between bytes of a frame, while draining, twice in a row, from outside or by a fault of its own change no token',
  () => seeds.assertKept('tokens'),
);
simulation('a request that crashes its runners fails after two crashes, and no request beside it does', () =>
  seeds.assertKept('suspects'),
);
simulation('every request ends in time, once, and is cancelled only by its client', () =>
  seeds.assertKept('ends'),
);
simulation('a request is with one runner at a time, and no more runners live than there are places', () =>
  seeds.assertKept('runners'),
);
simulation('no runner computes for nobody, and none outlives the stop', () => seeds.assertKept('rest'));
simulation('open requests, tokens that wait and bytes in pipes keep to their bounds', () =>
  seeds.assertKept('bounds'),
);

simulation(`${seeds.seeds.length} seeds of faults meet each kind of fault and of end`, () => {
  seeds.assertKept();
  seeds.assertMet('Faults', faultKinds);
  seeds.assertMet('Seen', ['pauses', 'contexts filled']);
  seeds.assertMet('Logged', ['request_quarantined', 'breaker_opened', 'breaker_closed']);
  if (seeds.seeds.length === 1) return;
  const notReady = seeds.counts.of('Outcomes', 'NOT_READY');
  const numRequests = seeds.counts.sum('Outcomes');
  assert.ok(notReady < numRequests / 10, `${notReady} of ${numRequests} requests found no runner`);
});

simulation.run();
