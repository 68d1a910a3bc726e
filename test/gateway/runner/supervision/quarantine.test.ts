import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import {
  fingerprintOf,
  maxQuarantined,
  Quarantine,
  quarantineMs,
} from '../../../../gateway/runner/supervision/quarantine.ts';
import { requestOf } from '../../../fixtures/requests.ts';

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

test('an entry that expires leaves other entries of the same length', () => {
  let nowMs = 0;
  const quarantine = new Quarantine(() => nowMs);
  quarantine.add(requestOf([1], 5));
  nowMs = 1;
  quarantine.add(requestOf([2], 5));
  nowMs = quarantineMs;
  assert.equal([quarantine.has(requestOf([1], 5)), quarantine.has(requestOf([2], 5))], [false, true]);
});

/** Ids that count how often one of them is read. */
function countedIds(ids: readonly number[]): { promptIds: number[]; numRead: () => number } {
  let numRead = 0;
  const promptIds = new Proxy([...ids], {
    get(target, key, receiver) {
      if (typeof key === 'string' && /^\d+$/.test(key)) numRead++;
      return Reflect.get(target, key, receiver);
    },
  });
  return { promptIds, numRead: () => numRead };
}

test('no prompt is read that is not as long as one that is kept out', () => {
  let nowMs = 0;
  const quarantine = new Quarantine(() => nowMs);
  quarantine.add(requestOf([1, 2, 3], 5));
  quarantine.add(requestOf([4, 5, 6], 5));
  const longer = countedIds([1, 2, 3, 4]);
  assert.is(quarantine.has(requestOf(longer.promptIds, 5)), false);
  assert.is(longer.numRead(), 0);
  const equal = countedIds([1, 2, 3]);
  assert.is(quarantine.has(requestOf(equal.promptIds, 5)), true);
  nowMs = quarantineMs;
  for (const ids of [
    [1, 2, 3],
    [4, 5, 6],
  ])
    assert.is(quarantine.has(requestOf(ids, 5)), false);
  const after = countedIds([1, 2, 3]);
  assert.is(quarantine.has(requestOf(after.promptIds, 5)), false);
  assert.is(after.numRead(), 0);
});

test('a prompt is read once, however many choices there are, and however often they are looked up', () => {
  const quarantine = new Quarantine(() => 0);
  const ids = Array.from({ length: 1000 }, (_, id) => id);
  quarantine.add(requestOf([...ids], 5));
  const { promptIds, numRead } = countedIds(ids);
  for (const temperature of [0, 0.5, 1]) {
    const { sampling } = requestOf([], 5);
    const request = requestOf(promptIds, 5, { sampling: { ...sampling, temperature } });
    for (let i = 0; i < 2; i++) assert.is(quarantine.has(request), temperature === 1);
  }
  assert.is(numRead(), ids.length);
});

test('the fingerprint is of the prompt and every parameter, but not of seed, deadline, key, API and trace', () => {
  const request = requestOf([1, 2], 5);
  const { sampling } = request;
  const fingerprint = fingerprintOf(request);
  const same = { ...request, deadlineMs: 17, sampling: { ...sampling, seed: 1n } };
  assert.is(fingerprintOf(same), fingerprint);
  // The salt does not matter: a request that kills a runner does so for every client.
  assert.is(fingerprintOf({ ...request, cacheSalt: Uint8Array.of(1) }), fingerprint);
  // Nor does the API that it came by.
  assert.is(fingerprintOf({ ...request, api: 'openai' }), fingerprintOf({ ...request, api: 'ollama' }));
  assert.is(fingerprintOf({ ...request, api: 'openai' }), fingerprint);
  assert.is(fingerprintOf({ ...request, trace: { traceId: 'a', spanId: 'b' } }), fingerprint);
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
