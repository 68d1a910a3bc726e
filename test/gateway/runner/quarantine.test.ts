import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import {
  fingerprintOf,
  maxQuarantined,
  Quarantine,
  quarantineMs,
} from '../../../gateway/runner/quarantine.ts';
import { requestOf } from '../../fixtures/requests.ts';

const test = suite('quarantine');

test('keeps a request out for its time', () => {
  let nowMs = 0;
  const quarantine = new Quarantine(() => nowMs);
  assert.is(quarantine.has(requestOf([1], 5)), false);
  quarantine.add(requestOf([1], 5));
  assert.equal([quarantine.has(requestOf([1], 5)), quarantine.has(requestOf([2], 5))], [true, false]);
  nowMs = quarantineMs - 1;
  assert.is(quarantine.has(requestOf([1], 5)), true);
  nowMs = quarantineMs;
  assert.is(quarantine.has(requestOf([1], 5)), false);
});

test('has a bound: the one that was asked for least recently goes first', () => {
  const quarantine = new Quarantine(() => 0);
  for (let id = 0; id < maxQuarantined; id += 1) quarantine.add(requestOf([id], 5));
  assert.is(quarantine.has(requestOf([0], 5)), true);
  quarantine.add(requestOf([maxQuarantined], 5));
  assert.equal(
    [0, 1, maxQuarantined].map((id) => quarantine.has(requestOf([id], 5))),
    [true, false, true],
  );
});

test('the fingerprint is of the prompt and every parameter, but not of seed and deadline', () => {
  const request = requestOf([1, 2], 5);
  const { sampling } = request;
  const fingerprint = fingerprintOf(request);
  const same = { ...request, deadlineMs: 17, sampling: { ...sampling, seed: 1n } };
  assert.is(fingerprintOf(same), fingerprint);
  const others = [
    requestOf([1, 3], 5),
    requestOf([1, 2], 6),
    requestOf([1, 2], 5, { stopIds: [3] }),
    requestOf([1, 2], 5, { topLogprobs: 1 }),
    requestOf([1, 2], 5, { sampling: { ...sampling, temperature: 0 } }),
    requestOf([1, 2], 5, { sampling: { ...sampling, logitBias: new Map([[3, 1]]) } }),
    requestOf([1, 2], 5, { sampling: { ...sampling, logitBias: new Map([[3, 2]]) } }),
  ].map(fingerprintOf);
  assert.is(new Set([fingerprint, ...others]).size, others.length + 1);
});

test.run();
