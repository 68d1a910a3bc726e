/** What a soak has seen, its verdict, and both as a block of Markdown. */
import type { Recovery } from './kills.ts';
import type { LoadCounts } from './load.ts';
import type { Sample } from './samples.ts';
import { percentile, slopeOf } from './trend.ts';

const BYTES_PER_MIB = 2 ** 20;
/**
 * The first half of a run fills pools and caches of the gateway, some of them slowly, and counts for no slope. Growth that has
 * ended by then is no leak; a leak goes on in the second half.
 */
const GATEWAY_WARM_UP_FRACTION = 0.5;
/** A runner has touched all of its memory within a minute. */
const RUNNER_WARM_UP_FRACTION = 0.2;
const MAX_MIB_PER_HOUR = 1;
/** A standard error beyond this: nothing can be said of the slope, which is no verdict. */
const MAX_ERROR_MIB_PER_HOUR = 3;
/** The engine compiles more and more of the source, for as long as it finds paths worth it: it is bounded, but not flat in half an hour. */
const MAX_CODE_MIB = 16;
const MAX_MORE_DESCRIPTORS = 2;
/** Of the heap without compiled code: what is kept of source that has run for the first time. */
const MAX_MORE_HEAP_MIB = 4;

export interface Soak {
  readonly date: string;
  readonly commit: string;
  readonly machine: string;
  readonly subject: string;
  /** Whether the last runner lived long enough for its memory to say something. */
  readonly isRunnerJudged: boolean;
  readonly killEverySec: number;
  readonly seed: number;
  readonly minutes: number;
  readonly numClients: number;
  readonly counts: LoadCounts;
  readonly numTokens: number;
  readonly recoveries: readonly Recovery[];
  /** Under load. */
  readonly samples: readonly Sample[];
  /** Without a request: before the load, and after each round of it. */
  readonly idleBefore: Sample;
  readonly idleSamples: readonly Sample[];
}

interface Row {
  readonly what: string;
  readonly seen: string;
  readonly limit: string;
  readonly isGood: boolean;
}

export interface Verdict {
  readonly isGood: boolean;
  readonly markdown: string;
}

export function judge(soak: Soak): Verdict {
  const rows = [...answerRows(soak), ...heldRows(soak)];
  const isGood = rows.every((row) => row.isGood);
  const parts = [heading(soak), table(rows), partsTable(soak), recoveryTable(soak)];
  return { isGood, markdown: parts.join('\n\n') };
}

function heading({
  date,
  commit,
  machine,
  subject,
  killEverySec,
  seed,
  minutes,
  numClients,
  counts,
  numTokens,
  recoveries,
}: Soak): string {
  const numOpen = recoveries.reduce((sum, recovery) => sum + recovery.numOpen, 0);
  return [
    `${date}, commit ${commit}, ${machine}; ${subject}, ${minutes} minutes, ${numClients} clients, a kill every ${killEverySec} s, seed ${seed}.`,
    `${counts.numRequests} requests, ${numTokens} tokens, ${counts.numAnswers} answers compared, ` +
      `${counts.numCancels} cancels, ${recoveries.length} kills with ${numOpen} requests open in all.`,
  ].join('\n');
}

function answerRows({ counts, recoveries }: Soak): Row[] {
  return [
    atMost('answers that differ from the undisturbed one', counts.numMismatches, 0),
    atMost('answers that ended otherwise', counts.failures.length, 0),
    { what: 'kills', seen: String(recoveries.length), limit: 'at least 1', isGood: recoveries.length > 0 },
  ];
}

function heldRows({ samples, idleBefore, idleSamples, isRunnerJudged }: Soak): Row[] {
  const idleAfter = idleSamples.at(-1) ?? idleBefore;
  const idle = afterWarmUp(idleSamples, GATEWAY_WARM_UP_FRACTION);
  const ofLastRunner = afterWarmUp(
    samples.filter(({ runnerPid }) => runnerPid === idleAfter.runnerPid),
    RUNNER_WARM_UP_FRACTION,
  );
  const mostCode = Math.max(...samples.map(({ gatewayCodeBytes }) => gatewayCodeBytes)) / BYTES_PER_MIB;
  const moreHeap = (heapBytes(idleAfter) - heapBytes(idleBefore)) / BYTES_PER_MIB;
  const moreDescriptors = idleAfter.gatewayDescriptors - idleBefore.gatewayDescriptors;
  return [
    slopeRow(
      'gateway, memory without compiled code, idle',
      idle,
      ({ gatewayMemoryBytes: memory, gatewayCodeBytes: code }) => memory - code,
    ),
    slopeRow('gateway, heap without compiled code, idle', idle, heapBytes),
    atMost(
      'heap without compiled code, idle: MiB more than before',
      Number(moreHeap.toFixed(1)),
      MAX_MORE_HEAP_MIB,
    ),
    atMost('compiled code of the gateway, MiB', Math.round(mostCode), MAX_CODE_MIB),
    ...(isRunnerJudged
      ? [slopeRow('the last runner, memory', ofLastRunner, ({ runnerMemoryBytes }) => runnerMemoryBytes)]
      : []),
    atMost('descriptors of the gateway, idle: more than before', moreDescriptors, MAX_MORE_DESCRIPTORS),
    atMost('timers, idle: more than before', idleAfter.gatewayTimers - idleBefore.gatewayTimers, 0),
    atMost('zombies that stay from one sample to the next', numStayingZombies(samples, idleAfter), 0),
    atMost('blocks in use, idle', idleAfter.usedBlocks ?? Number.POSITIVE_INFINITY, 0),
    atMost('requests open, idle', idleAfter.openRequests, 0),
  ];
}

function heapBytes({ gatewayHeapBytes: heap, gatewayCodeBytes: code }: Sample): number {
  return heap - code;
}

function afterWarmUp(samples: readonly Sample[], fraction: number): readonly Sample[] {
  return samples.slice(Math.floor(samples.length * fraction));
}

function numStayingZombies(samples: readonly Sample[], idleAfter: Sample): number {
  const staying = samples.flatMap(({ zombies }, index) => {
    const next = samples[index + 1] ?? idleAfter;
    return zombies.filter((pid) => next.zombies.includes(pid));
  });
  return new Set(staying).size;
}

function atMost(what: string, seen: number, limit: number): Row {
  return { what, seen: String(seen), limit: `at most ${limit}`, isGood: seen <= limit };
}

/** Bad is a growth beyond the limit that chance does not explain: two standard errors above it. */
function slopeRow(
  what: string,
  samples: readonly Sample[],
  bytesOf: (sample: Sample) => number | undefined,
): Row {
  const limit = `at most ${MAX_MIB_PER_HOUR} MiB/h, within two standard errors`;
  const points = samples.flatMap((sample) => {
    const bytes = bytesOf(sample);
    return bytes === undefined ? [] : [{ hours: sample.hours, value: bytes / BYTES_PER_MIB }];
  });
  const slope = slopeOf(points);
  if (slope === undefined) return { what, seen: 'too few samples', limit, isGood: false };
  const { perHour, errorPerHour } = slope;
  const isKnown = errorPerHour <= MAX_ERROR_MIB_PER_HOUR;
  const values = points.map(({ value }) => value);
  const range = `${Math.min(...values).toFixed(1)} to ${Math.max(...values).toFixed(1)} MiB`;
  return {
    what,
    seen: `${range}; ${perHour.toFixed(2)} ± ${errorPerHour.toFixed(2)} MiB/h${isKnown ? '' : ': too short a run to tell'}`,
    limit,
    isGood: isKnown && perHour - 2 * errorPerHour <= MAX_MIB_PER_HOUR,
  };
}

function table(rows: readonly Row[]): string {
  const lines = rows.map(
    ({ what, seen, limit, isGood }) => `| ${what} | ${seen} | ${limit} | ${isGood ? 'yes' : '**no**'} |`,
  );
  return ['| what | seen | limit | good |', '|---|---|---|---|', ...lines].join('\n');
}

/** What the memory of the idle gateway consists of, so that a growth has a name. */
function partsTable({ idleBefore, idleSamples }: Soak): string {
  const halfWay = idleSamples[Math.floor(idleSamples.length / 2)] ?? idleBefore;
  const columns = [idleBefore, halfWay, idleSamples.at(-1) ?? idleBefore];
  const line = (what: string, bytesOf: (sample: Sample) => number) =>
    `| ${what} | ${columns.map((sample) => (bytesOf(sample) / BYTES_PER_MIB).toFixed(1)).join(' | ')} |`;
  return [
    '| the idle gateway, MiB | before | half-way | at the end |',
    '|---|---|---|---|',
    line('memory', ({ gatewayMemoryBytes }) => gatewayMemoryBytes),
    line('heap without compiled code', heapBytes),
    line('compiled code', ({ gatewayCodeBytes }) => gatewayCodeBytes),
    line('buffers outside of the heap', ({ gatewayExternalBytes }) => gatewayExternalBytes),
    line(
      'the rest',
      ({ gatewayMemoryBytes: memory, gatewayHeapBytes: heap, gatewayExternalBytes: external }) =>
        memory - heap - external,
    ),
  ].join('\n');
}

function recoveryTable({ recoveries }: Soak): string {
  const line = (what: string, value: (recovery: Recovery) => number) => {
    const values = recoveries.map(value);
    const at = (fraction: number) => percentile(values, fraction)?.toFixed(0) ?? '–';
    return `| ${what} | ${at(0.5)} | ${at(0.99)} | ${at(1)} |`;
  };
  return [
    `| after a kill (${recoveries.length}) | p50 ms | p99 ms | longest ms |`,
    '|---|---|---|---|',
    line('death noticed', ({ noticedMs }) => noticedMs),
    line('next runner ready', ({ readyMs }) => readyMs),
    line('first resumed token at a client', ({ resumedMs }) => resumedMs),
  ].join('\n');
}
