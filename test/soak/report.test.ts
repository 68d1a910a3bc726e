import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { judge, type Soak } from './report.ts';
import type { Sample } from './samples.ts';

const idle: Sample = {
  hours: 0,
  gatewayMemoryBytes: 2 ** 27,
  gatewayHeapBytes: 2 ** 25,
  gatewayCodeBytes: 2 ** 23,
  gatewayExternalBytes: 2 ** 22,
  gatewayDescriptors: 30,
  gatewayTimers: 3,
  zombies: [],
  openRequests: 0,
  runnerPid: 11,
  runnerMemoryBytes: 2 ** 28,
  runnerDescriptors: 8,
  usedBlocks: 0,
};
const NUM_SAMPLES = 100;

/** Half an hour in which each sample is `change` of the plain one. */
function samplesOf(change: (hours: number, index: number) => Partial<Sample> = () => ({})): Sample[] {
  return Array.from({ length: NUM_SAMPLES }, (_, index) => {
    const hours = index / NUM_SAMPLES / 2;
    return { ...idle, hours, ...change(hours, index) };
  });
}

const good: Soak = {
  date: '2026-01-02',
  commit: 'abc',
  machine: 'a machine',
  subject: 'a model',
  isRunnerJudged: true,
  killEverySec: 30,
  seed: 1,
  minutes: 30,
  numClients: 8,
  counts: { numRequests: 9, numAnswers: 6, numCancels: 3, numMismatches: 0, failures: [] },
  numTokens: 100,
  recoveries: [{ numOpen: 8, noticedMs: 1, readyMs: 20, resumedMs: 30 }],
  samples: samplesOf(),
  idleBefore: idle,
  idleSamples: samplesOf(),
};

/** A run that holds this when it has ended. */
function endingWith(change: Partial<Sample>): Sample[] {
  return [...samplesOf(), { ...idle, hours: 0.5, ...change }];
}

/** Samples of each minute of two hours, whose memory beyond the plain one's is so many MiB. */
function twoHours(mibAt: (hours: number) => number): Sample[] {
  return Array.from({ length: 120 }, (_, index) => {
    const hours = (index + 1) / 60;
    // Memory is counted in pages, which come and go.
    const noise = ((index * 37) % 11) * 2 ** 14;
    return { ...idle, hours, gatewayMemoryBytes: idle.gatewayMemoryBytes + mibAt(hours) * 2 ** 20 + noise };
  });
}

const test = suite('soak report');

test('steady values, noise, warm-up and a process killed just now are good', () => {
  assert.ok(judge(good).isGood);
  // Half of the two hours is warm-up; then it is up and down by 6 MiB.
  const restless = twoHours((hours) => (hours < 0.98 ? -64 : Math.round(hours * 60) % 7)).map(
    (sample, index) => ({ ...sample, zombies: [1000 + index] }),
  );
  const { isGood, markdown } = judge({
    ...good,
    samples: restless,
    idleSamples: restless.map((sample) => ({ ...sample, zombies: [] })),
  });
  assert.ok(isGood, markdown);
});

test('growth that ends is no leak, and one that goes on is, however slow', () => {
  // Nearly all of it comes in the first half: 3 MiB, of which every eight minutes leave a third.
  const filling = twoHours((hours) => 3 * (1 - Math.exp(-hours / 0.133)));
  assert.ok(
    judge({ ...good, idleSamples: filling }).isGood,
    judge({ ...good, idleSamples: filling }).markdown,
  );
  assert.not.ok(judge({ ...good, idleSamples: twoHours((hours) => 2 * hours) }).isGood);
  const late = twoHours((hours) => (hours < 1 ? 0 : 2 * (hours - 1)));
  assert.not.ok(judge({ ...good, idleSamples: late }).isGood);
});

test('the report says of what the memory of the idle gateway is, before, in the middle and at the end', () => {
  const idleSamples = samplesOf((hours) => ({ gatewayExternalBytes: 2 ** 22 + hours * 2 ** 22 }));
  const { markdown } = judge({ ...good, idleSamples });
  assert.match(markdown, '| the idle gateway, MiB | before | half-way | at the end |');
  assert.match(markdown, '| memory | 128.0 | 128.0 | 128.0 |');
  assert.match(markdown, '| heap without compiled code | 24.0 | 24.0 | 24.0 |');
  assert.match(markdown, '| compiled code | 8.0 | 8.0 | 8.0 |');
  assert.match(markdown, '| buffers outside of the heap | 4.0 | 5.0 | 6.0 |');
  assert.match(markdown, '| the rest | 92.0 | 91.0 | 90.0 |');
});

test('moderate memory of compiled code is no growth of heap or memory', () => {
  const compiling = samplesOf((hours) => {
    const grown = hours * 4 * 2 ** 20;
    return {
      gatewayMemoryBytes: idle.gatewayMemoryBytes + grown,
      gatewayHeapBytes: idle.gatewayHeapBytes + grown,
      gatewayCodeBytes: idle.gatewayCodeBytes + grown,
    };
  });
  const { isGood, markdown } = judge({ ...good, samples: compiling, idleSamples: compiling });
  assert.ok(isGood, markdown);
});

test('only the runner that lives to the end is judged by its memory, and over a fake runner none is', () => {
  const growing = (pid: number) =>
    samplesOf((hours, index) => ({
      runnerPid: index < 50 ? 10 : 11,
      runnerMemoryBytes: idle.runnerMemoryBytes ?? 0,
      ...((index < 50 ? 10 : 11) === pid ? { runnerMemoryBytes: 2 ** 28 + hours * 2 ** 24 } : {}),
    }));
  assert.ok(judge({ ...good, samples: growing(10) }).isGood);
  assert.not.ok(judge({ ...good, samples: growing(11) }).isGood);
  assert.ok(judge({ ...good, samples: growing(11), isRunnerJudged: false }).isGood);
});

test('a run too short to separate a slope from noise is not good', () => {
  const short = Array.from({ length: 10 }, (_, index) => ({
    ...idle,
    hours: index / 1000,
    gatewayMemoryBytes: idle.gatewayMemoryBytes + (index % 3) * 2 ** 19,
  }));
  const { isGood, markdown } = judge({ ...good, idleSamples: short });
  assert.not.ok(isGood);
  assert.match(markdown, /gateway, memory without compiled code, idle \| [^|]*: too short a run to tell \|/);
});

test('each thing that grows, differs or stays is bad', () => {
  const growing = (name: 'gatewayMemoryBytes' | 'gatewayHeapBytes' | 'runnerMemoryBytes') =>
    samplesOf((hours) => ({ [name]: 2 ** 28 + hours * 2 * 2 ** 20 }));
  const bad: Partial<Soak>[] = [
    { idleSamples: growing('gatewayMemoryBytes') },
    { idleSamples: growing('gatewayHeapBytes') },
    { idleSamples: [] },
    { samples: growing('runnerMemoryBytes') },
    { samples: samplesOf(() => ({ gatewayCodeBytes: 2 ** 25 })) },
    { samples: samplesOf(() => ({ zombies: [7] })) },
    { samples: [] },
    { recoveries: [] },
    { counts: { ...good.counts, numMismatches: 1 } },
    { counts: { ...good.counts, failures: ['x'] } },
    { idleSamples: endingWith({ gatewayDescriptors: 33 }) },
    { idleSamples: endingWith({ gatewayHeapBytes: idle.gatewayHeapBytes + 5 * 2 ** 20 }) },
    { idleSamples: endingWith({ gatewayTimers: 4 }) },
    { idleSamples: endingWith({ usedBlocks: 1 }) },
    { idleSamples: endingWith({ usedBlocks: undefined }) },
    { idleSamples: endingWith({ openRequests: 1 }) },
  ];
  for (const change of bad) {
    const { isGood, markdown } = judge({ ...good, ...change });
    assert.not.ok(isGood, markdown);
  }
});

test.run();
