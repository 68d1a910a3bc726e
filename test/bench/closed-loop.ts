/**
 * Clients that ask again as soon as they are answered, over HTTP: tokens a second, time to the first token, and how many
 * streams decode at once. With several runners each round measures one after the other, on the same prompts, so that what
 * the machine does meanwhile falls on all of them: A B A B.
 */
import { basename } from 'node:path';
import { parseArgs } from 'node:util';
import { z } from 'zod';
import { CPU_RUNNER, DEFAULT_MODEL } from '../fixtures/default-model.ts';
import { Gateway } from '../fixtures/gateway.ts';
import { Random } from '../fixtures/random.ts';
import { readEvents } from '../fixtures/sse.ts';
import { median, type Round, roundText, summaryText, valueAt } from './closed-loop-report.ts';

const HELP = `node --import tsx test/bench/closed-loop.ts [options] [-- flags of runnel serve]

--runner PATH       a runner binary; given twice or more, they are measured in turn (default build/cpu-runner)
--model PATH        default: the default model
--clients N         32
--prompt N          tokens of each prompt, drawn at random: 128
--generate N        tokens of each answer: 128
--seconds N         measured in each round: 60
--warmup-seconds N  before that in each round, for all clients to be under way: 30
--rounds N          3
--seed N            of the prompts: 1
`;

/** Ids below are control tokens in common vocabularies. */
const FIRST_ID = 256;
const MAX_ID = 32_000;

const options = {
  runner: { type: 'string', multiple: true },
  model: { type: 'string' },
  clients: { type: 'string' },
  prompt: { type: 'string' },
  generate: { type: 'string' },
  seconds: { type: 'string' },
  'warmup-seconds': { type: 'string' },
  rounds: { type: 'string' },
  seed: { type: 'string' },
  help: { type: 'boolean' },
} as const;

const { values, positionals } = parseArgs({ options, allowPositionals: true });
if (values.help) {
  process.stdout.write(HELP);
  process.exit(0);
}

const whole = (most: number) => z.coerce.number().int().min(1).max(most);
const flags = z
  .object({
    runner: z.array(z.string()).default([CPU_RUNNER]),
    model: z.string().default(DEFAULT_MODEL),
    clients: whole(512).default(32),
    prompt: whole(100_000).default(128),
    generate: whole(100_000).default(128),
    seconds: whole(3600).default(60),
    'warmup-seconds': z.coerce.number().int().min(0).max(3600).default(30),
    rounds: whole(100).default(3),
    seed: z.coerce.number().int().default(1),
  })
  .parse(values);

interface Counters {
  readonly atMs: number;
  readonly tokens: number;
  readonly steps: number;
  readonly decoding: number;
}

async function countersOf(gateway: Gateway): Promise<Counters> {
  const text = await (await fetch(`${gateway.url}/metrics`)).text();
  const sum = (pattern: RegExp) => [...text.matchAll(pattern)].reduce((all, [, n]) => all + Number(n), 0);
  return {
    atMs: performance.now(),
    tokens: sum(/^worker_tokens_generated_total (\d+)$/gm),
    steps: sum(/^runnel_steps_total\{kind="\w+"\} (\d+)$/gm),
    decoding: sum(/^runnel_step_sequences_total\{kind="decode"\} (\d+)$/gm),
  };
}

/** The milliseconds at which each token's event came. */
async function ask(gateway: Gateway, prompt: readonly number[], seed: number, end: AbortSignal) {
  const { generate } = flags;
  const response = await fetch(`${gateway.url}/v1/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      model: basename(flags.model, '.gguf'),
      prompt,
      max_tokens: generate,
      min_tokens: generate,
      seed,
      stream: true,
    }),
    signal: end,
  });
  if (!response.ok) throw new Error(`${response.status}: ${await response.text()}`);
  const times: number[] = [];
  for await (const { data } of readEvents(response)) {
    // A token may spell it as well.
    if (data.startsWith('{"error":')) throw new Error(data);
    if (data.includes('"choices"')) times.push(performance.now());
  }
  return times;
}

async function measure(gateway: Gateway, round: number): Promise<Round> {
  const random = new Random(flags.seed + round);
  const clock = new AbortController();
  const firstTokensMs: { readonly atMs: number; readonly afterMs: number }[] = [];
  const client = async () => {
    while (!clock.signal.aborted) {
      const prompt = Array.from({ length: flags.prompt }, () => FIRST_ID + random.below(MAX_ID - FIRST_ID));
      const sentMs = performance.now();
      const [first] = await ask(gateway, prompt, random.below(2 ** 31), clock.signal);
      if (first !== undefined) firstTokensMs.push({ atMs: first, afterMs: first - sentMs });
    }
  };
  const wait = (seconds: number) => new Promise((resolve) => setTimeout(resolve, seconds * 1000));
  const watch = async () => {
    await wait(flags['warmup-seconds']);
    const before = await countersOf(gateway);
    await wait(flags.seconds);
    const after = await countersOf(gateway);
    clock.abort();
    return { before, after };
  };
  const clients = Array.from({ length: flags.clients }, () =>
    client().catch((error: unknown) => {
      if (!clock.signal.aborted) throw error;
    }),
  );
  const [{ before, after }] = await Promise.all([watch(), ...clients]);
  await gateway.healthWhere(({ runner }) => runner.open_requests === 0, 'No open request');
  const waits = firstTokensMs
    .filter(({ atMs }) => atMs >= before.atMs && atMs <= after.atMs)
    .map(({ afterMs }) => afterMs);
  return {
    tokensPerSecond: ((after.tokens - before.tokens) * 1000) / (after.atMs - before.atMs),
    firstTokenMs: { p50: median(waits), p95: valueAt(waits, 0.95) },
    decoding: (after.decoding - before.decoding) / (after.steps - before.steps),
  };
}

const gateways: Gateway[] = [];
try {
  for (const runner of flags.runner) {
    const args = ['--port', '0', '--backend', 'cpu', '--runner', runner, ...positionals];
    gateways.push(await Gateway.startOn(flags.model, args));
  }
  await Promise.all(gateways.map((gateway) => gateway.ready()));
  const { clients, prompt, generate } = flags;
  console.log(`${clients} clients, prompts of ${prompt}, answers of ${generate}, ${basename(flags.model)}`);
  const rounds: Round[][] = gateways.map(() => []);
  for (let i = 0; i < flags.rounds; ++i) {
    for (const [k, gateway] of gateways.entries()) {
      const round = await measure(gateway, i);
      rounds[k]?.push(round);
      console.log(`round ${i + 1}, ${flags.runner[k]}: ${roundText(round)}`);
    }
  }
  console.log(`\n${summaryText(flags.runner, rounds)}`);
} finally {
  await Promise.all(gateways.map((gateway) => gateway.stop()));
}
