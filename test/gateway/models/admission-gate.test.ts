import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { AdmissionGate, type AdmissionGateOptions } from '../../../gateway/models/admission-gate.ts';
import type { GenerationError } from '../../../gateway/runner/runner.ts';
import { callerNamed } from '../../fixtures/keys.ts';
import { generationErrorOf } from '../../fixtures/supervised.ts';
import { VirtualClock } from '../../fixtures/virtual-clock.ts';

const test = suite('gate');
const stays = new AbortController().signal;
const visitor = { deadlineMs: undefined, signal: stays, caller: callerNamed('first') };

function gateWith(changes: Partial<AdmissionGateOptions> = {}): {
  gate: AdmissionGate;
  clock: VirtualClock;
  refused: GenerationError[];
} {
  const clock = new VirtualClock();
  const refused: GenerationError[] = [];
  const onRefused = (error: GenerationError) => refused.push(error);
  return {
    gate: new AdmissionGate({
      maxWaiting: 3,
      maxWaitMs: 60_000,
      now: () => clock.now(),
      clock,
      onRefused,
      ...changes,
    }),
    clock,
    refused,
  };
}

test('visitors of a closed gate wait, and enter in order when it opens', async () => {
  const { gate } = gateWith();
  gate.close();
  const order: number[] = [];
  const entered = [1, 2, 3].map(async (number) => {
    const leave = await gate.enter(visitor);
    order.push(number);
    return leave;
  });
  assert.is(gate.numWaiting, 3);
  gate.open();
  const leaves = await Promise.all(entered);
  assert.equal(order, [1, 2, 3]);
  assert.is(gate.numWaiting, 0);
  let isEmpty = false;
  const emptied = gate.emptied().then(() => (isEmpty = true));
  for (const leave of leaves) {
    assert.not.ok(isEmpty);
    leave();
  }
  await emptied;
});

test('a gate that closes again at once keeps visitors who have not entered', async () => {
  const { gate } = gateWith();
  gate.close();
  let isIn = false;
  const entered = gate.enter(visitor).then((leave) => {
    isIn = true;
    leave();
  });
  gate.open();
  gate.close();
  await gate.emptied();
  await Promise.resolve();
  assert.not.ok(isIn);
  assert.is(gate.numWaiting, 1);
  gate.open();
  await entered;
});

test('a clock that is set costs nobody the rest of a wait', async () => {
  let nowMs = 1_800_000_000_000;
  const { gate, clock } = gateWith({ now: () => nowMs });
  gate.close();
  const waits = [gate.enter(visitor), gate.enter({ ...visitor, deadlineMs: nowMs + 60_000 })];
  nowMs += 3_600_000;
  // The gate shuts again at once, so those that wait begin to wait anew.
  gate.open();
  gate.close();
  await new Promise((resolve) => setImmediate(resolve));
  // Enough for a timer that was set for no time at all.
  clock.pass(1);
  assert.is(gate.numWaiting, 2);
  gate.open();
  for (const leave of await Promise.all(waits)) leave();
});

test('each wait has its end: the bound, the deadline, the server’s limit, the client’s leaving', async () => {
  const { gate, clock, refused } = gateWith({ maxWaitMs: 30 });
  gate.close();
  const passing = generationErrorOf(gate.enter({ ...visitor, deadlineMs: clock.now() - 1 }));
  clock.pass(0);
  const past = await passing;
  assert.match(past.message, 'deadline');
  const client = new AbortController();
  const waits = [
    gate.enter({ ...visitor, deadlineMs: clock.now() + 10 }),
    gate.enter(visitor),
    gate.enter({ ...visitor, signal: client.signal }),
  ].map(generationErrorOf);
  const full = await generationErrorOf(gate.enter(visitor));
  assert.equal([full.code, full.retriable, full.retryAfterSec], ['QUEUE_FULL', true, 1]);
  client.abort();
  clock.pass(9);
  assert.is(gate.numWaiting, 2, 'neither the deadline nor the bound is reached');
  clock.pass(1);
  assert.is(gate.numWaiting, 1, 'the bound is not reached');
  clock.pass(20);
  const [late, limited, gone] = await Promise.all(waits);
  assert.equal([late?.code, limited?.code, gone?.code], ['TIMEOUT', 'TIMEOUT', 'CANCELLED']);
  assert.match(late?.message ?? '', 'deadline');
  assert.match(limited?.message ?? '', '0.03 s');
  assert.is(gate.numWaiting, 0);
  const codes = refused.map(({ code }) => code).sort();
  assert.equal(
    codes,
    ['CANCELLED', 'QUEUE_FULL', 'TIMEOUT', 'TIMEOUT', 'TIMEOUT'],
    'each refusal is counted',
  );
  await generationErrorOf(gate.enter({ ...visitor, signal: client.signal }));
});

test('a caller whose requests fill the gate leaves others their share of it', async () => {
  const { gate } = gateWith({ maxWaiting: 4 });
  gate.close();
  const other = { ...visitor, caller: callerNamed('other') };
  const waits = [visitor, visitor, visitor, visitor, other, other].map((each) => gate.enter(each));
  assert.is(gate.numWaiting, 6);
  for (const full of [visitor, other])
    assert.is((await generationErrorOf(gate.enter(full))).code, 'QUEUE_FULL');
  gate.open();
  for (const leave of await Promise.all(waits)) leave();
  gate.close();
  const again = [other, other, other, other].map((each) => gate.enter(each));
  assert.is(gate.numWaiting, 4, 'who has got in holds nothing of it');
  gate.open();
  for (const leave of await Promise.all(again)) leave();
});

test.run();
