import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { markdown, typesTable } from './markdown.ts';
import { instructionSetOf, passed, type Report, sharesOf } from './report.ts';

const test = suite('bench report');

const spread = (median: number) => ({ median, min: median, max: median });

const REPORT: Report = {
  at: '2026-11-22T08:11:12.000Z',
  machine: {
    processor: 'AMD EPYC',
    processors: 2,
    memoryBytes: 24 * 2 ** 30,
    kernel: '6.18.44',
    node: 'v20.20.2',
    commit: 'aca559419f58',
    loadBefore: 0.1,
  },
  model: {
    name: 'smollm2.gguf',
    bytes: 98_362_432,
    sha256: 'b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53',
    stepWeightBytes: 100_000_000,
    layerMatrixParameters: 100_000_000,
  },
  threads: 2,
  device: 'cpu, avx512vnni, 2 threads',
  peers: [{ name: 'llama.cpp', version: '0.5.0-dev' }],
  peak: {
    readGbPerSecond: spread(40),
    int8Gops: { avx2: spread(600), avx512vnni: spread(2000) },
    missing: ['avxvnni'],
  },
  stolenShare: 0.001,
  accuracy: [
    {
      gate: { arithmetic: 'the default', flags: [], leastTop1: 0.95, mostMeanDifference: 0.04 },
      agreement: { positions: 616, top1: 0.9562, meanDifference: 0.0391 },
      passed: true,
    },
  ],
  parts: [
    {
      name: 'alone',
      title: 'A prompt alone',
      results: [
        {
          engine: 'Runnel',
          metrics: {
            prefill: { setting: '', rounds: [5000, 5500, 4500] },
            decode1: { setting: '', rounds: [350, 360, 300] },
          },
          failures: [],
        },
        {
          engine: 'llama.cpp',
          metrics: {
            prefill: { setting: '-fa 1', rounds: [500, 500, 500] },
            decode1: { setting: '-fa 0', rounds: [175, 180, 150] },
          },
          failures: ['llama.cpp -fa 2: ended with 1'],
        },
      ],
    },
    {
      name: 'serve',
      title: 'Clients',
      results: [
        { engine: 'Runnel', metrics: { starved: { setting: '', rounds: [0] } }, failures: [] },
        { engine: 'llama.cpp', metrics: {}, failures: ['llama.cpp: there is no llama-server in its folder'] },
      ],
    },
  ],
};

test('shares are of the bandwidth, and of the peak of the instruction set that computed', () => {
  assert.equal(sharesOf(REPORT), [
    { of: 'read bandwidth, by decode of 1 stream', reached: 35, limit: 40, unit: 'GB/s' },
    { of: 'integer peak of avx512vnni, by prefill', reached: 1000, limit: 2000, unit: 'GOPS' },
  ]);
  assert.is(instructionSetOf('cpu, x86-64-v3, 2 threads'), 'avx2');
  const portable = { ...REPORT, device: 'cpu, portable, 2 threads' };
  assert.equal(
    sharesOf(portable).map(({ of }) => of),
    ['read bandwidth, by decode of 1 stream'],
  );
  assert.equal(sharesOf({ ...REPORT, parts: [] }), []);
});

test('the report has tables of medians, spreads and ratios, and lists missing figures', () => {
  assert.is(
    markdown(REPORT),
    `|  |  |
|---|---|
| machine | AMD EPYC, 2 processors, 24 GiB, Linux 6.18.44 |
| Runnel | commit aca559419f58, cpu, avx512vnni, 2 threads, Node v20.20.2 |
| llama.cpp | 0.5.0-dev, 2 threads |
| model | smollm2.gguf, 98362432 bytes, sha256 b179c9523d0e6a0f… |
| when | 2026-11-22 08:11 UTC, load before 0.10 |

**A prompt alone.**

|  | Runnel | llama.cpp | Runnel / llama.cpp |
|---|---|---|---|
| prefill, tokens/s | 5,000 (4,500 to 5,500) | 500 (500 to 500) | **10.00** (9.00 to 11.00) |
| decode, 1 stream, tokens/s | 350 (300 to 360) | 175 (150 to 180) | **2.00** (2.00 to 2.00) |

* llama.cpp: \`-fa 1\` was best for prefill.
* llama.cpp: \`-fa 0\` was best for decode, 1 stream.
* No figures of llama.cpp -fa 2: ended with 1.

**Clients.**

|  | Runnel | llama.cpp | Runnel / llama.cpp |
|---|---|---|---|
| clients without a token | 0 | – | – |

* No figures of llama.cpp: there is no llama-server in its folder.

**What the machine can do, measured in the same run, and what of it is reached.**

|  |  |
|---|---|
| all threads read memory, GB/s | 40.0 (40.0 to 40.0) |
| dot instructions of avx2, GOPS | 600.0 (600.0 to 600.0) |
| dot instructions of avx512vnni, GOPS | 2000.0 (2000.0 to 2000.0) |
| dot instructions of avxvnni | not run: this processor has none |
| of the read bandwidth, by decode of 1 stream | **88 %**: 35.0 GB/s |
| of the integer peak of avx512vnni, by prefill | **50 %**: 1000.0 GOPS |

**Accuracy, beside fp32 on the dequantised weights.**

| arithmetic | most likely token the same | wanted | mean difference of log-probability | wanted |  |
|---|---|---|---|---|---|
| the default | 95.62 % of 616 | 95.0 % | 0.03910 | 0.04 | reached |`,
  );
});

test('types of weights are rows of one table, with the ratio of each figure', () => {
  const [{ results }] = REPORT.parts as [Report['parts'][number]];
  const missing = { engine: 'llama.cpp', metrics: {}, failures: ['llama.cpp -fa 0: ended with 1'] };
  assert.is(
    typesTable([
      { type: 'q4_k', results },
      { type: 'bf16', results: [...results.slice(0, 1), missing] },
    ]),
    `|  | prefill: Runnel | llama.cpp | ratio | decode, 1 stream: Runnel | llama.cpp | ratio |
|---|---|---|---|---|---|---|
| q4_k | 5,000 (4,500 to 5,500) | 500 (500 to 500) | **10.00** (9.00 to 11.00) | 350 (300 to 360) | 175 (150 to 180) | **2.00** (2.00 to 2.00) |
| bf16 | 5,000 (4,500 to 5,500) | – | – | 350 (300 to 360) | – | – |

* No figures of q4_k, llama.cpp -fa 2: ended with 1.
* No figures of bf16, llama.cpp -fa 0: ended with 1.`,
  );
});

test('a busy machine is reported', () => {
  const machine = { ...REPORT.machine, loadBefore: 8.58 };
  assert.match(
    markdown({ ...REPORT, machine, stolenShare: 0.05 }),
    '| not quiet | a load of 8.58 before it began, 5.0 % of its time stolen: ',
  );
});

test('a missed or unmeasured accuracy fails the report', () => {
  assert.ok(passed(REPORT));
  const [one] = REPORT.accuracy as [Report['accuracy'][number]];
  const missed = {
    ...REPORT,
    accuracy: [one, { gate: one.gate, failure: 'cpu-runner ended with 64', passed: false }],
  };
  assert.not(passed(missed));
  assert.match(
    markdown(missed),
    '| the default | – | 95.0 % | – | 0.04 | failed: cpu-runner ended with 64 |',
  );
  const unknown = { ...REPORT, accuracy: [], accuracyUnknown: 'the reference is of the default model' };
  assert.match(markdown(unknown), 'Not looked at: the reference is of the default model.');
});

test.run();
