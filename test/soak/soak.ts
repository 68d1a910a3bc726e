/**
 * `make soak`: the default model under clients of every kind, 30 of 100 of whom leave early, while its runner is killed again and
 * again, and then while one runner lives on. Each minute the clients pause, and it is looked at what is held while nobody asks: that
 * must stay flat, and every answer must be the undisturbed one. Writes soak.json and soak.md.
 *
 * --minutes N         how long; 30
 * --kill-every-sec N  20; 1 over a fake runner
 * --clients N         8
 * --seed N            what clients do depends on it; random
 * --out DIR           build
 * --fake-runner       the gateway by itself, over a runner without a model, which is killed to the end
 */
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { availableParallelism, cpus } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import * as z from 'zod';
import type { Gateway } from '../fixtures/gateway.ts';
import { Random } from '../fixtures/random.ts';
import { variedRequests } from '../fixtures/varied-requests.ts';
import { killOnce, type Recovery } from './kills.ts';
import { Load, type LoadCounts } from './load.ts';
import { LogEvents } from './log-events.ts';
import { judge, type Soak } from './report.ts';
import { type Sample, takeSample } from './samples.ts';
import { defaultModel, gatewayAlone, type Subject } from './subject.ts';

const NUM_TOKENS = 48;
const ROUND_MS = 60_000;
const SAMPLE_INTERVAL_MS = 10_000;
const SETTLE_MS = 30_000;
const SETTLE_POLL_MS = 1000;

const flags = z
  .object({
    minutes: z.coerce.number().positive().default(30),
    'kill-every-sec': z.coerce.number().positive().optional(),
    clients: z.coerce.number().int().min(1).max(64).default(8),
    seed: z.coerce.number().int().optional(),
    out: z.string().default('build'),
    'fake-runner': z.boolean().default(false),
  })
  .parse(
    parseArgs({
      options: {
        minutes: { type: 'string' },
        'kill-every-sec': { type: 'string' },
        clients: { type: 'string' },
        seed: { type: 'string' },
        out: { type: 'string' },
        'fake-runner': { type: 'boolean' },
      },
    }).values,
  );

async function idle(gateway: Gateway): Promise<void> {
  await gateway.healthWhere(
    ({ status, runner: { open_requests: open, kv_blocks: all, kv_blocks_free: free } }) =>
      status === 'healthy' && open === 0 && all === free,
    'An idle runner with all its blocks',
  );
}

/** Clients keep connections for a while after their last answer. Whatever is left when patience ends is what the report shows. */
async function settledSample(
  gateway: Gateway,
  log: LogEvents,
  startedMs: number,
  before: Sample,
): Promise<Sample> {
  const deadlineMs = Date.now() + SETTLE_MS;
  for (;;) {
    const sample = await takeSample(gateway, log, startedMs);
    if (sample.gatewayDescriptors <= before.gatewayDescriptors || Date.now() > deadlineMs) return sample;
    await sleep(SETTLE_POLL_MS);
  }
}

async function tokensOf(gateway: Gateway): Promise<number> {
  const text = await (await fetch(`${gateway.url}/metrics`)).text();
  return Number(/^worker_tokens_generated_total\{model="[^"]+"\} (\d+)$/m.exec(text)?.[1]);
}

/** Calls `act` at the beginning of each interval until it is over. */
async function everyInterval(
  intervalMs: number,
  isOver: () => boolean,
  act: () => Promise<void>,
): Promise<void> {
  for (let next = Date.now() + intervalMs; !isOver(); next += intervalMs) {
    await sleep(Math.max(0, next - Date.now()));
    if (!isOver()) await act();
  }
}

function roundLine(elapsedMs: number, counts: LoadCounts, { length: numKills }: readonly Recovery[]): string {
  const { numRequests, numMismatches, failures } = counts;
  const minutes = Math.round(elapsedMs / 60_000);
  return `${minutes} min: ${numRequests} requests, ${numKills} kills, ${numMismatches} different answers, ${failures.length} failures`;
}

async function soak(subject: Subject, gateway: Gateway): Promise<Soak> {
  const log = new LogEvents(gateway);
  const random = new Random(flags.seed);
  console.log(`seed ${random.seed}`);
  const load = new Load(gateway, variedRequests(subject.modelId, NUM_TOKENS), random);
  await load.learn();
  await idle(gateway);
  const startedMs = Date.now();
  const idleBefore = await takeSample(gateway, log, startedMs);

  const killIntervalMs = (flags['kill-every-sec'] ?? subject.killEverySec) * 1000;
  const durationMs = flags.minutes * 60_000;
  const elapsedMs = (): number => Date.now() - startedMs;
  const recoveries: Recovery[] = [];
  const samples: Sample[] = [];
  const idleSamples: Sample[] = [];
  // By the clock, not by a number of rounds: on a busy machine a round takes longer than ROUND_MS.
  do {
    const roundMs = Date.now();
    const isOver = () => Date.now() - roundMs >= ROUND_MS;
    const isWithoutKills = elapsedMs() >= durationMs * subject.killingFraction;
    // A kill needs streams that return, so that it is not the last thing that happens.
    let isKilling = false;
    await Promise.all([
      ...Array.from({ length: flags.clients }, () => load.run(() => isOver() && !isKilling)),
      everyInterval(
        killIntervalMs,
        () => isOver() || isWithoutKills,
        async () => {
          isKilling = true;
          recoveries.push(await killOnce(gateway, load, log));
          isKilling = false;
        },
      ),
      everyInterval(SAMPLE_INTERVAL_MS, isOver, async () => {
        samples.push(await takeSample(gateway, log, startedMs));
      }),
    ]);
    await idle(gateway);
    idleSamples.push(await settledSample(gateway, log, startedMs, idleBefore));
    console.log(roundLine(elapsedMs(), load.counts, recoveries));
  } while (elapsedMs() < durationMs);
  return {
    date: new Date().toISOString().slice(0, 10),
    commit: execFileSync('git', ['rev-parse', '--short', 'HEAD'], { encoding: 'utf8' }).trim(),
    machine: `${cpus()[0]?.model}, ${availableParallelism()} cores, Node ${process.versions.node}`,
    subject: subject.name,
    isRunnerJudged: subject.killingFraction < 1,
    killEverySec: killIntervalMs / 1000,
    seed: random.seed,
    minutes: flags.minutes,
    numClients: flags.clients,
    counts: load.counts,
    numTokens: await tokensOf(gateway),
    recoveries,
    samples,
    idleBefore,
    idleSamples,
  };
}

const subject = flags['fake-runner'] ? gatewayAlone() : defaultModel();
const gateway = await subject.start();
try {
  const seen = await soak(subject, await gateway.ready());
  const { isGood, markdown } = judge(seen);
  writeFileSync(join(flags.out, 'soak.json'), JSON.stringify(seen, null, 2));
  writeFileSync(join(flags.out, 'soak.md'), `${markdown}\n`);
  console.log(markdown);
  for (const failure of seen.counts.failures) console.log(failure);
  process.exitCode = isGood ? 0 : 1;
} finally {
  await gateway.stop();
}
