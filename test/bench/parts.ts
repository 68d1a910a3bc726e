import { join } from 'node:path';
import { temporaryFolder } from '../fixtures/temporary-folder.ts';
import type { Amounts } from './engines/amounts.ts';
import { peerTogether } from './engines/llama-batched-bench.ts';
import { peerAlone } from './engines/llama-bench.ts';
import { type Runner, runnelAlone, runnelTogether } from './engines/runnel.ts';
import { interleave, type Measured, type Plan, type Subject } from './interleave.ts';
import type { Options, PartName } from './options.ts';
import { outputOf } from './program.ts';
import { afterRestart } from './serving/after-restart.ts';
import { besideCaller } from './serving/beside-caller.ts';
import { besideGrammars } from './serving/beside-grammars.ts';
import { closedLoop, type Load } from './serving/closed-loop.ts';
import { readingBodies } from './serving/execute-body.ts';
import { serverStart, startingRunner } from './serving/first-token.ts';
import { longPrompt, STREAM_TOKENS } from './serving/long-prompt.ts';
import { pauses } from './serving/pause.ts';
import { servingPeer, servingRunnel, type Work } from './serving/subjects.ts';

/** The parts of the measurement. In each part all engines do the same work. */

export interface Part {
  readonly name: PartName;
  readonly title: string;
  readonly results: readonly Measured[];
}

/** Room for the short prompts of the streams and the short answer to the long prompt. */
const CONTEXT_TO_SPARE = 64;

/** For writing 4.6 GB, the size of the largest synthetic model. */
const SYNTH_MS = 300_000;

/** A request every 20 ms: enough for a 99th percentile. */
const HEALTH_SECONDS = 10;

type Say = (text: string) => void;

export async function measureParts(runners: readonly Runner[], options: Options, say: Say): Promise<Part[]> {
  const { only, peers, rounds, serveRounds, clients, streams } = options;
  const [{ model, threads }] = runners as readonly [Runner];
  const amounts: Amounts = { ...options, generateTogether: options['generate-together'] };
  const load = loadOf(options);
  const loop: Work = (server, round) => closedLoop(server, load, round);
  const long: Work = (server, round) =>
    longPrompt(server, { streams, prompt: options['long-prompt'], seed: options.seed }, round);
  const beside: Work = (server, round) =>
    besideGrammars(server, { seconds: options.seconds, seed: options.seed }, round);
  const contextOfClient = load.mostPrompt + load.generate;
  const contextOfLong = Math.max(options['long-prompt'], STREAM_TOKENS) + CONTEXT_TO_SPARE;
  const slots = (count: number, contextEach: number) => ({ model, threads, slots: count, contextEach });
  const all: readonly {
    readonly name: PartName;
    readonly title: string;
    readonly plan: Plan;
    readonly subjects: () => Promise<readonly Subject[]>;
  }[] = [
    {
      name: 'alone',
      title: `A prompt of ${amounts.prompt} tokens alone, and one stream of ${amounts.generate}`,
      plan: { rounds },
      subjects: async () => [
        ...runners.map((runner) => runnelAlone(runner, amounts)),
        ...(await each(peers, (peer) => peerAlone(peer, model, threads, amounts))),
      ],
    },
    {
      name: 'together',
      title: `Streams that decode ${amounts.generateTogether} tokens together, each after ${amounts.depth}`,
      plan: { rounds },
      subjects: async () => [
        ...runners.map((runner) => runnelTogether(runner, amounts)),
        ...(await each(peers, (peer) => peerTogether(peer, model, threads, amounts))),
      ],
    },
    {
      name: 'serve',
      title:
        `${clients} closed-loop clients over HTTP: prompts of ${load.leastPrompt} to ` +
        `${load.mostPrompt} tokens, answers of ${load.generate}, temperature ${load.temperature}, top_k ${load.topK}`,
      plan: { rounds: serveRounds, decider: 'served' },
      subjects: async () => [
        ...runners.map((runner) => servingRunnel(runner, loop)),
        ...(await each(peers, (peer) => servingPeer(peer, slots(clients, contextOfClient), loop))),
      ],
    },
    {
      name: 'long-prompt',
      title: `${streams} streams over HTTP, and a prompt of ${options['long-prompt']} tokens that comes meanwhile`,
      plan: { rounds: serveRounds, decider: 'longPromptFirstToken' },
      subjects: async () => [
        ...runners.map((runner) => servingRunnel(runner, long)),
        ...(await each(peers, (peer) => servingPeer(peer, slots(streams + 1, contextOfLong), long))),
      ],
    },
    {
      name: 'restart',
      title: `A prompt of ${options['long-prompt']} tokens over HTTP that the server before the restart has answered`,
      plan: { rounds: serveRounds },
      subjects: async () =>
        runners.map((runner) => afterRestart(runner, { prompt: options['long-prompt'], seed: options.seed })),
    },
    {
      name: 'grammars',
      title: 'A stream over HTTP, alone and beside eight whose grammars take long to follow',
      plan: { rounds: serveRounds },
      subjects: async () => runners.map((runner) => servingRunnel(runner, beside)),
    },
    {
      name: 'callers',
      title: 'The first token of a caller, alone and beside another with 32 requests of 8 answers each',
      plan: { rounds: serveRounds },
      subjects: async () =>
        runners.map((runner) => besideCaller(runner, { seconds: options.seconds, seed: options.seed })),
    },
    {
      name: 'bodies',
      title: 'What the gateway takes to parse and validate the body of a POST /execute',
      plan: { rounds },
      subjects: async () => [readingBodies()],
    },
    {
      name: 'start',
      title:
        'From exec to the first token, with the file in the page cache, and what the death of a runner costs a stream',
      plan: { rounds },
      subjects: async () => [
        ...runners.map((runner) => servingRunnel(runner, serverStart)),
        ...runners.map((runner) =>
          startingRunner(runner, { packing: 'runnerStart', given: 'runnerRestart' }),
        ),
        ...(await syntheticStarts(runners, options)),
        ...runners.map((runner) => servingRunnel(runner, pauses)),
        ...(await each(peers, (peer) => servingPeer(peer, slots(1, contextOfClient), serverStart))),
      ],
    },
  ];
  const parts: Part[] = [];
  for (const { name, title, plan, subjects } of all) {
    if (!only.includes(name)) continue;
    say(`\n${title}`);
    parts.push({ name, title, results: await interleave(await subjects(), { ...plan, onRound: say }) });
  }
  return parts;
}

async function syntheticStarts(
  runners: readonly Runner[],
  { synthetic: shape }: Options,
): Promise<readonly Subject[]> {
  if (shape === 'off') return [];
  const model = join(temporaryFolder().path, `${shape}.gguf`);
  const [{ file }] = runners as readonly [Runner];
  await outputOf(file, ['synth', '--arch', 'llama', '--shape', shape, '--type', 'q4_0', model], {
    timeoutMs: SYNTH_MS,
  });
  const starts = { packing: 'syntheticStart', given: 'syntheticRestart' } as const;
  return runners.map((runner) => startingRunner({ ...runner, model }, starts));
}

export function loadOf(options: Options): Load {
  const [leastPrompt, mostPrompt] = options['client-prompt'];
  return {
    clients: options.clients,
    leastPrompt,
    mostPrompt,
    generate: options['client-generate'],
    temperature: options.temperature,
    topK: options['top-k'],
    warmupSeconds: options['warmup-seconds'],
    seconds: options.seconds,
    healthSeconds: HEALTH_SECONDS,
    seed: options.seed,
  };
}

function each<Item, Value>(items: readonly Item[], make: (item: Item) => Promise<Value>): Promise<Value[]> {
  return Promise.all(items.map(make));
}
