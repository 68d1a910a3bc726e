import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import * as z from 'zod';
import { type Peer, peersOf } from './engines/peer.ts';

/** The options of `make bench`. */

export const HELP = `make bench [MODEL=…] [PEER_BIN=DIR[:DIR…]] [BENCH='options']

The options of test/bench/bench.ts, with what they are for:

--model NAME|PATH      a model that pull knows, or a file: smollm2
--runner PATH          given twice or more, they are measured in turn: BUILD/cpu-runner
--build DIR            where cpu-runner and machine-peak are, and where bench.json goes: build
--threads N            of every engine: as many as this process may use
--rounds N             that count, of what is computed without a server: 3, and 5 of several
--serve-rounds N       the same of servers: 1, and 5 of several
--only PART,…          of accuracy, alone, together, serve, long-prompt, restart, grammars, callers, bodies, start: all
--prompt N             tokens of a prompt alone: 512
--generate N           tokens that one stream decodes: 128
--depth N              tokens of each of 8 and 32 streams before it decodes: 128
--generate-together N  tokens that each of them decodes: 32
--clients N            closed-loop clients: 32
--client-prompt N-N    tokens of their prompts, at random: 50-500
--client-generate N    tokens of their answers: 128
--temperature T        0.8
--top-k N              40; 0: all
--warmup-seconds N     before a server's round counts: 10
--seconds N            of each of its rounds: 20
--long-prompt N        tokens of a prompt that comes while streams run, or after a restart: 4000
--streams N            that run meanwhile: 8
--synthetic SHAPE      of the synthetic model whose runner is started, 1b or 8b; off: none: 1b
--seed N               of the prompts: 1
--types TYPE,…         of weights, of make bench-types: all but f32
--write-docs           the tables into docs/performance.md
-- FLAG…               more flags of Runnel's engine

PEER_BIN: folders of llama-bench, llama-batched-bench and llama-server, to measure in turn with Runnel.
`;

export const PARTS = [
  'accuracy',
  'alone',
  'together',
  'serve',
  'long-prompt',
  'restart',
  'grammars',
  'callers',
  'bodies',
  'start',
] as const;
export type PartName = (typeof PARTS)[number];

/** The names that synth uses. */
export const TYPES = [
  'bf16',
  'f16',
  'q4_0',
  'q4_1',
  'q5_0',
  'q5_1',
  'q8_0',
  'q2_k',
  'q3_k',
  'q4_k',
  'q5_k',
  'q6_k',
  'iq4_nl',
  'iq4_xs',
  'mxfp4',
] as const;

const COMPARED_ROUNDS = 5;

const whole = (least: number, most: number) => z.coerce.number().int().min(least).max(most);
const range = z
  .string()
  .regex(/^\d+-\d+$/, 'must be two numbers with - between them, such as 50-500')
  .transform((text) => text.split('-').map(Number) as [number, number])
  .refine(([least, most]) => least >= 1 && least <= most, 'must begin with the smaller number, at least 1');

const schema = z.strictObject({
  model: z.string().default('smollm2'),
  runner: z.array(z.string()).min(1).optional(),
  build: z.string().default('build'),
  threads: whole(1, 256).default(availableParallelism()),
  rounds: whole(1, 100).optional(),
  'serve-rounds': whole(1, 100).optional(),
  only: z
    .string()
    .transform((text) => text.split(','))
    .pipe(z.array(z.enum(PARTS)))
    .default([...PARTS]),
  prompt: whole(1, 100_000).default(512),
  generate: whole(1, 100_000).default(128),
  depth: whole(1, 100_000).default(128),
  'generate-together': whole(1, 100_000).default(32),
  clients: whole(1, 512).default(32),
  'client-prompt': range.default([50, 500]),
  'client-generate': whole(2, 100_000).default(128),
  temperature: z.coerce.number().min(0).max(2).default(0.8),
  'top-k': whole(0, 2 ** 31).default(40),
  'warmup-seconds': whole(0, 3600).default(10),
  seconds: whole(1, 3600).default(20),
  'long-prompt': whole(1, 100_000).default(4000),
  streams: whole(1, 511).default(8),
  synthetic: z.enum(['1b', '8b', 'off']).default('1b'),
  seed: z.coerce.number().int().default(1),
  types: z
    .string()
    .transform((text) => text.split(','))
    .pipe(z.array(z.enum(TYPES)))
    .default([...TYPES]),
  'write-docs': z.boolean().default(false),
});

export interface Options extends Omit<z.output<typeof schema>, 'runner' | 'rounds' | 'serve-rounds'> {
  /** Paths of runners. */
  readonly runners: readonly string[];
  readonly rounds: number;
  readonly serveRounds: number;
  readonly peers: readonly Peer[];
  readonly engineFlags: readonly string[];
}

/** undefined if help was asked for. */
export function parseOptions(args: readonly string[], env: NodeJS.ProcessEnv): Options | undefined {
  const names = Object.keys(schema.shape).filter((name) => name !== 'write-docs' && name !== 'runner');
  const { values, positionals } = parseArgs({
    args: [...args],
    options: {
      ...Object.fromEntries(names.map((name) => [name, { type: 'string' } as const])),
      runner: { type: 'string', multiple: true },
      'write-docs': { type: 'boolean' },
      help: { type: 'boolean' },
    },
    allowPositionals: true,
  });
  const { help, ...given } = values;
  if (help === true) return undefined;
  const { runner, rounds, 'serve-rounds': serveRounds, ...options } = checked(given);
  const peers = peersOf(env.PEER_BIN);
  const isCompared = peers.length > 0 || (runner?.length ?? 1) > 1;
  return {
    ...options,
    runners: runner ?? [join(options.build, 'cpu-runner')],
    rounds: rounds ?? (isCompared ? COMPARED_ROUNDS : 3),
    serveRounds: serveRounds ?? (isCompared ? COMPARED_ROUNDS : 1),
    peers,
    engineFlags: positionals,
  };
}

/** Throws an error that names each invalid option. */
function checked(given: unknown): z.output<typeof schema> {
  const parsed = schema.safeParse(given);
  if (parsed.success) return parsed.data;
  const faults = parsed.error.issues.map(({ path, message }) => `--${path.join('.')}: ${message}`);
  throw new Error(`${faults.join('; ')}. --help tells what there is.`);
}
