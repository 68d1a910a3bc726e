import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import {
  decimal,
  hostNames,
  isLoopback,
  origins,
  powerOfTwo,
  seed,
  socketPath,
  text,
  whole,
} from './config/kinds.ts';
import {
  type ConfigOf,
  mergeSettings,
  parseFlags,
  type SettingTable,
  settingsHelp,
} from './config/settings.ts';
import { CACHE_SHARINGS } from './guard/cache-salt.ts';
import { UsageError } from './ops/exit-code.ts';
import { LOG_LEVELS } from './ops/log.ts';
import { passedSocket } from './ops/systemd/passed-socket.ts';

/** What can be set. How it is read is in config/. */

/** What the runner binaries accept; they check again. */
export const RUNNER_LIMITS = {
  threads: 256,
  maxModelLen: 2 ** 20,
  maxNumSeqs: 1024,
  maxNumBatchedTokens: 65_536,
  requests: 1024,
} as const;

const SANDBOX_MODES = ['strict', 'auto', 'off'] as const;
const KV_CACHE_TYPES = ['f16', 'f32', 'q8_0'] as const;

const MODEL_MISSING = 'is missing: name a model file, or a model that `runnel pull` has fetched';

/** Of every command that starts a runner. */
export const runnerSettings = {
  model: {
    schema: z
      .string({ error: ({ input }) => (input === undefined ? MODEL_MISSING : 'must be text') })
      .min(1, 'must not be empty'),
    help: 'model file (.gguf), or the name of a pulled model',
  },
  runner: {
    schema: text(),
    fallback: fileURLToPath(new URL('../build/cpu-runner', import.meta.url)),
    fallbackHelp: 'build/cpu-runner',
    help: 'the runner binary',
  },
  threads: {
    schema: whole(1, RUNNER_LIMITS.threads),
    fallback: Math.min(availableParallelism(), RUNNER_LIMITS.threads),
    fallbackHelp: 'one for each processor',
    help: 'threads the runner computes with',
  },
  'max-model-len': {
    schema: whole(2, RUNNER_LIMITS.maxModelLen).optional(),
    help: "tokens of prompt and answer together; default: the model's context",
  },
  'max-num-seqs': {
    schema: whole(1, RUNNER_LIMITS.maxNumSeqs).optional(),
    help: 'sequences computed in one step at most',
  },
  'max-num-batched-tokens': {
    schema: whole(1, RUNNER_LIMITS.maxNumBatchedTokens).optional(),
    help: 'rows computed in one step at most',
  },
  'mixed-batches': {
    schema: z.enum(['on', 'off'], 'must be on or off').optional(),
    help: 'whether next tokens and parts of prompts share a step; default: on',
  },
  'mixed-prefill-tokens': {
    schema: whole(1, RUNNER_LIMITS.maxNumBatchedTokens).optional(),
    help: 'rows of prompts in a step that also has next tokens; default: 32',
  },
  'block-size': {
    schema: powerOfTwo(8, 256).optional(),
    help: 'tokens in a block of the KV cache: a power of two',
  },
  'kv-cache-bytes': {
    schema: whole(1, 2 ** 50).optional(),
    help: 'memory for the KV cache; default: 1 GiB, or less where more is of no use',
  },
  'memory-bytes': {
    schema: whole(1, 2 ** 50).optional(),
    help: 'memory of the whole runner, instead of --kv-cache-bytes',
  },
  'kv-cache-type': {
    schema: z.enum(KV_CACHE_TYPES, `must be one of ${KV_CACHE_TYPES.join(', ')}`).optional(),
    help: `what the KV cache stores: ${KV_CACHE_TYPES.join(', ')}; default: f16`,
  },
  sandbox: {
    schema: z.enum(SANDBOX_MODES, `must be one of ${SANDBOX_MODES.join(', ')}`).optional(),
    help: 'confinement of the runner: strict: no start without all of it; auto (default): what the system has; off',
  },
  record: {
    schema: text().optional(),
    help: 'file to record what the runner is told and says; it holds prompts, as ids',
  },
  'record-max-bytes': { schema: whole(1, 2 ** 50).optional(), help: 'where a recording stops' },
} as const satisfies SettingTable;

const settings = {
  ...runnerSettings,
  'worker-id': {
    schema: z
      .string()
      .regex(/^[A-Za-z0-9._-]{1,128}$/, 'must be 1 to 128 letters, digits, dots, underscores and hyphens')
      .optional(),
    help: 'name of this worker for logs and the pool manager; random for each start unless set',
  },
  'callback-url': {
    schema: z
      .string()
      .refine(isCallbackUrl, 'must be an http or https URL without user and password')
      .optional(),
    help: 'told once by POST when the model is ready; exits if it refuses; localhost:9999: not told',
  },
  host: {
    schema: text(),
    fallback: '127.0.0.1',
    help: 'address to listen on; one that is not loopback needs --api-keys-file',
  },
  port: { schema: whole(0, 65_535), fallback: 8080, help: 'port to listen on; 0 lets the system choose' },
  uds: { schema: socketPath().optional(), help: 'UNIX socket to listen on, instead of --host and --port' },
  'api-keys-file': {
    schema: text().optional(),
    help: 'file with the keys that let clients in, one a line; read once, at the start',
  },
  'prefix-cache-sharing': {
    schema: z.enum(CACHE_SHARINGS, `must be one of ${CACHE_SHARINGS.join(', ')}`),
    fallback: 'per-key',
    help: 'per-key: no key finds out what others ask, by how fast it is answered; all: faster',
  },
  'allowed-hosts': {
    schema: hostNames(),
    fallback: [],
    help: 'names that requests may call this server by, besides localhost and the address it listens on',
  },
  'cors-origins': {
    schema: origins(),
    fallback: [],
    help: 'origins of web pages that may send requests; none unless set',
  },
  'max-open-requests': {
    schema: whole(1, RUNNER_LIMITS.requests),
    fallback: 256,
    help: 'requests held at once; one more gets 429',
  },
  'max-queued-tokens': {
    schema: whole(1, 2 ** 30),
    fallback: 2 ** 18,
    help: 'prompt tokens of these together; one more request gets 429',
  },
  'inference-timeout-sec': {
    schema: whole(1, 86_400),
    fallback: 300,
    help: 'time a request gets at most',
  },
  'max-body-bytes': {
    schema: whole(1024, 2 ** 30),
    fallback: 2 ** 20,
    help: 'bytes a request body may have',
  },
  'max-connections': {
    schema: whole(1, 2 ** 20),
    fallback: 1024,
    help: 'connections held at once; one more is closed',
  },
  'max-requests-per-connection': {
    schema: whole(1, 2 ** 31 - 1),
    fallback: 1000,
    help: 'requests taken on one connection before it is closed',
  },
  'max-headers': { schema: whole(16, 2000), fallback: 64, help: 'header lines read of a request' },
  'headers-timeout-sec': {
    schema: whole(1, 3600),
    fallback: 10,
    help: 'time a client has to send the header of a request',
  },
  'request-timeout-sec': {
    schema: whole(1, 3600),
    fallback: 30,
    help: 'time a client has to send a whole request; the answer may take as long as it takes',
  },
  'keep-alive-timeout-sec': {
    schema: whole(1, 3600),
    fallback: 5,
    help: 'time a connection may wait for its next request',
  },
  'timeouts-check-interval-sec': {
    schema: whole(1, 60),
    fallback: 1,
    help: 'how often these times are looked at',
  },
  'wedge-timeout-sec': {
    schema: whole(0, 3600),
    fallback: 10,
    help: 'least time without a step after which a busy runner is taken for hung; 0: none is, however silent',
  },
  'drain-timeout-sec': {
    schema: whole(0, 3600),
    fallback: 30,
    help: 'time open streams get to finish after SIGTERM',
  },
  'log-level': {
    schema: z.enum(LOG_LEVELS, `must be one of ${LOG_LEVELS.join(', ')}`),
    fallback: 'info',
    help: LOG_LEVELS.join(', '),
  },
} as const satisfies SettingTable;

/** The settings of `runnel generate`; ranges of sampling parameters are those of requests. */
export const generateSettings = {
  ...runnerSettings,
  'max-tokens': { schema: whole(1, 2 ** 31 - 1), fallback: 64, help: 'tokens of an answer' },
  'min-tokens': {
    schema: whole(0, 2 ** 31 - 1),
    fallback: 0,
    help: 'tokens before which the model may not end an answer',
  },
  temperature: { schema: decimal(0, 2), fallback: 1, help: '0 takes the likeliest token' },
  'top-k': { schema: whole(0, 2 ** 32 - 1), fallback: 0, help: 'tokens to draw from; 0: all' },
  'top-p': { schema: decimal(0, 1), fallback: 1, help: 'probability of the tokens to draw from, together' },
  'min-p': { schema: decimal(0, 1), fallback: 0, help: 'least probability, as a share of the likeliest' },
  'repetition-penalty': {
    schema: decimal(0, 2).refine((value) => value > 0, 'must be above 0'),
    fallback: 1,
    help: 'divides the logits of tokens that were there; 1: none',
  },
  'presence-penalty': {
    schema: decimal(-2, 2),
    fallback: 0,
    help: 'lowers the logits of tokens of the answer so far',
  },
  'frequency-penalty': {
    schema: decimal(-2, 2),
    fallback: 0,
    help: 'the same, for each time they were there',
  },
  seed: {
    schema: seed().optional(),
    help: 'of the first prompt, the next one has the next; random unless set',
  },
} as const satisfies SettingTable;

export type GenerateConfig = ConfigOf<typeof generateSettings>;

export function generateHelp(): string {
  return settingsHelp(generateSettings);
}

/** The settings of `runnel serve`. */
export type Config = ConfigOf<typeof settings>;

/** UsageError for a setting that cannot be used; the message names where it was given, its value and what it takes. */
export function readConfig(args: readonly string[], env: NodeJS.ProcessEnv): Config {
  const flags = parseFlags(settings, args);
  const { config, sourceOf } = mergeSettings(settings, flags, env, flags.config ?? env.RUNNEL_CONFIG);
  checkRunnerSettings(sourceOf);
  const uds = sourceOf('uds');
  const tcp = sourceOf('host') ?? sourceOf('port');
  if (uds !== undefined && tcp !== undefined) {
    throw new UsageError(`${uds} and ${tcp} cannot be obeyed together: leave one of them out.`);
  }
  const place = uds ?? tcp;
  if (place !== undefined && passedSocket(env) !== undefined) {
    throw new UsageError(
      `${place} cannot be obeyed: systemd passes on the socket to listen on; leave ${place} out, and say it by ListenStream= in the socket unit.`,
    );
  }
  if (!isLoopback(config.host) && config['api-keys-file'] === undefined) {
    throw new UsageError(
      `${sourceOf('host')} must be a loopback address, got ${JSON.stringify(config.host)}; to let others in, set --api-keys-file as well.`,
    );
  }
  if (config['headers-timeout-sec'] > config['request-timeout-sec']) {
    throw new UsageError(
      `--headers-timeout-sec must be at most --request-timeout-sec, got ${config['headers-timeout-sec']} and ${config['request-timeout-sec']}.`,
    );
  }
  return config;
}

/** UsageError for settings of the runner that contradict each other. */
export function checkRunnerSettings(
  sourceOf: (name: keyof typeof runnerSettings) => string | undefined,
): void {
  const memory = sourceOf('memory-bytes');
  const cache = sourceOf('kv-cache-bytes');
  if (memory !== undefined && cache !== undefined) {
    throw new UsageError(`${memory} and ${cache} cannot be obeyed together: leave one of them out.`);
  }
}

/** As JSON that --config takes: read again, it is the same configuration. */
export function printConfig(config: Config): string {
  const { host, port, ...others } = config;
  return `${JSON.stringify(config.uds === undefined ? { host, port, ...others } : others, null, 2)}\n`;
}

export function configHelp(): string {
  return settingsHelp(settings);
}

function isCallbackUrl(text: string): boolean {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  return (
    (url?.protocol === 'http:' || url?.protocol === 'https:') && url.username === '' && url.password === ''
  );
}
