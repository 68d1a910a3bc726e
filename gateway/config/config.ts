import * as z from 'zod';
import { refuse } from '../errors/exit-code.ts';
import { notRunnable } from '../runner/backends/devices.ts';
import { poolings } from '../runner/runner.ts';
import { passedSocket } from '../systemd/passed-socket.ts';
import { LOG_LEVELS } from '../telemetry/log.ts';
import { CACHE_SHARINGS } from './cache-sharing.ts';
import { parseFlags } from './flags.ts';
import {
  baseUrl,
  hostName,
  hostNames,
  httpUrl,
  isLoopback,
  isUnspecified,
  modelNames,
  models,
  origins,
  socketPath,
  text,
  whole,
} from './kinds.ts';
import {
  backendOf,
  MODEL_MISSING,
  RUNNER_LIMITS,
  runnerFaults,
  runnerSettings,
  UNKNOWN_TO,
} from './runner-settings.ts';
import { type ConfigOf, type Merged, mergeSettings, type SettingTable, settingsHelp } from './settings.ts';

const PLAYGROUNDS = ['on', 'off', 'dev'] as const;

/** The settings of `runnel serve`. The other files of this folder read them, and have the settings of other commands. */

const settings = {
  ...runnerSettings,
  runners: {
    schema: whole(1, RUNNER_LIMITS.runners),
    fallback: 1,
    help: 'number of CPU runners that load the model, each into its own memory; without --threads they share the processors',
  },
  model: {
    schema: models(MODEL_MISSING),
    unless: 'models-dir',
    isList: true,
    help: 'GGUF file, Hugging Face folder, or name of a pulled model; NAME=MODEL serves it under another name; may be repeated for several models',
  },
  'models-dir': {
    schema: text().optional(),
    help: 'folder of models: each GGUF file and each Hugging Face folder in it is served under its name',
  },
  'pinned-models': {
    schema: modelNames(),
    fallback: [],
    help: 'with several models: names of those that are loaded at the start and never unloaded, separated by commas',
  },
  'memory-budget-bytes': {
    schema: whole(1, 2 ** 50).optional(),
    help: 'with several models: most bytes of memory for all loaded models together; default: what is free at the start',
  },
  'model-keep-alive-sec': {
    schema: whole(0, 31_536_000).optional(),
    help: 'with several models: seconds without a request after which a model is unloaded; 0: only when another one needs its memory (default 300)',
  },
  'worker-id': {
    schema: z
      .string()
      .regex(/^[A-Za-z0-9._-]{1,128}$/, 'must be 1 to 128 letters, digits, dots, underscores and hyphens')
      .optional(),
    help: 'name of this worker in the log and for the pool manager; random at each start unless set',
  },
  'served-model-name': {
    schema: modelNames(),
    fallback: [],
    help: "names by which clients of /v1 may call the model, separated by commas; default: its file's name",
  },
  pooling: {
    schema: z.enum(poolings, `must be one of ${poolings.join(', ')}`).optional(),
    help: `how embeddings are made from the tokens' vectors: ${poolings.join(', ')}; default: as the model's file says, else last`,
  },
  'callback-url': {
    schema: httpUrl().optional(),
    help: 'URL that gets one POST when the model is ready; the gateway ends if the POST fails or the model cannot be loaded; localhost:9999: no POST; none unless set',
  },
  'advertise-url': {
    schema: baseUrl().optional(),
    help: 'URL at which the pool manager reaches this worker; default: the address it listens on',
  },
  host: {
    schema: hostName(),
    fallback: '127.0.0.1',
    help: 'address to listen on; an address that is not loopback needs --api-keys-file',
  },
  port: { schema: whole(0, 65_535), fallback: 8080, help: 'port to listen on; 0: the system chooses one' },
  uds: {
    schema: socketPath().optional(),
    help: 'path of a UNIX socket to listen on, in place of --host and --port',
  },
  'api-keys-file': {
    schema: text().optional(),
    help: 'file with the keys that clients must send, one per line; read again at SIGHUP; without it clients need no key',
  },
  'admin-keys-file': {
    schema: text().optional(),
    help: 'file with the keys of operators, which also open /runner and /metrics; needs --api-keys-file',
  },
  'prefix-cache-sharing': {
    schema: z.enum(CACHE_SHARINGS, `must be one of ${CACHE_SHARINGS.join(', ')}`),
    fallback: 'per-key',
    help: 'which requests may reuse a computed prompt: per-key: those with the same key; all: every one, which is faster, but the time of an answer can tell what others asked',
  },
  'allowed-hosts': {
    schema: hostNames(),
    fallback: [],
    help: 'host names that requests may use for this server, besides localhost and the address it listens on, separated by commas',
  },
  'cors-origins': {
    schema: origins(),
    fallback: [],
    help: 'origins of web pages that may send requests, separated by commas; none unless set',
  },
  'max-open-requests': {
    schema: whole(1, RUNNER_LIMITS.requests),
    fallback: 256,
    help: 'most requests open at once; one more gets 429',
  },
  'max-queued-tokens': {
    schema: whole(1, RUNNER_LIMITS.promptTokens),
    fallback: 2 ** 18,
    help: 'most prompt tokens of all open requests together; one more request gets 429',
  },
  'inference-timeout-sec': {
    schema: whole(1, 86_400),
    fallback: 300,
    help: 'seconds after which an unfinished request is ended',
  },
  'max-body-bytes': {
    schema: whole(1024, 2 ** 30),
    fallback: 2 ** 20,
    help: 'most bytes of a request body',
  },
  'max-body-bytes-in-flight': {
    schema: whole(1024, 2 ** 36),
    fallback: 2 ** 26,
    help: 'most bytes of the request bodies that are not yet answered, together; one more request gets 503',
  },
  'max-answer-bytes-in-flight': {
    schema: whole(4096, 2 ** 36),
    fallback: 2 ** 26,
    help: 'most bytes of embeddings and long answers of /tokenize and /detokenize that clients have not yet read, together; one more request gets 503',
  },
  'max-connections': {
    schema: whole(1, 2 ** 20),
    fallback: 1024,
    help: 'most connections open at once; one more is closed',
  },
  'max-requests-per-connection': {
    schema: whole(1, 2 ** 31 - 1),
    fallback: 1000,
    help: 'requests after which a connection is closed',
  },
  'max-headers': {
    schema: whole(16, 2000),
    fallback: 64,
    help: 'most header lines of a request; a request with more is refused',
  },
  'headers-timeout-sec': {
    schema: whole(1, 3600),
    fallback: 10,
    help: 'seconds in which a client must send the header of a request',
  },
  'request-timeout-sec': {
    schema: whole(1, 3600),
    fallback: 30,
    help: 'seconds in which a client must send a whole request; the time for the answer does not count',
  },
  'client-stall-timeout-sec': {
    schema: whole(2, 3600),
    fallback: 30,
    help: 'seconds for which a client may read nothing of an answer that waits for it; then its request is cancelled',
  },
  'keep-alive-timeout-sec': {
    schema: whole(1, 3600),
    fallback: 5,
    help: 'seconds for which a connection may wait for its next request; then it is closed',
  },
  'timeouts-check-interval-sec': {
    schema: whole(1, 60),
    fallback: 1,
    help: 'seconds between two checks of the timeouts for headers and requests',
  },
  'wedge-timeout-sec': {
    schema: whole(0, 3600),
    fallback: 10,
    help: 'seconds without a step after which a busy runner counts as hung, or more if its steps are slow; 0: never',
  },
  'drain-timeout-sec': {
    schema: whole(0, 3600),
    fallback: 30,
    help: 'seconds in which open requests may finish after SIGTERM',
  },
  playground: {
    schema: z.enum(PLAYGROUNDS, `must be one of ${PLAYGROUNDS.join(', ')}`),
    fallback: 'on',
    help: 'the playground, a web page at /: on, off; dev: with a button that kills the runner, only on a loopback address',
  },
  'journal-dir': {
    schema: text().optional(),
    help: 'folder for durable jobs, which survive lost connections and the end of the gateway; without it requests for durable jobs are refused',
  },
  'journal-max-jobs': {
    schema: whole(1, 1_000_000).optional(),
    help: 'most durable jobs kept at once; one more gets 503 (default 4096)',
  },
  'journal-max-bytes': {
    schema: whole(2 ** 20, 2 ** 40).optional(),
    help: 'most bytes that the kept jobs take or may grow to; one more job gets 503 (default 268435456)',
  },
  'journal-keep-sec': {
    schema: whole(1, 31_536_000).optional(),
    help: 'seconds for which a job is kept after its end; a job that takes longer than this ends with an error (default 3600)',
  },
  'crash-reports-dir': {
    schema: text().optional(),
    help: 'folder for reports of runners that died, and for their recordings; none unless set',
  },
  'log-level': {
    schema: z.enum(LOG_LEVELS, `must be one of ${LOG_LEVELS.join(', ')}`),
    fallback: 'info',
    help: `lowest level of log lines that are written: ${LOG_LEVELS.join(', ')}`,
  },
} as const satisfies SettingTable;

/** The settings of `runnel serve`. */
export type Config = ConfigOf<typeof settings>;

/**
 * Throws one UsageError for all settings that cannot be used. Each of its sentences names the source of a setting, its value
 * and what it takes.
 */
export function readConfig(args: readonly string[], env: NodeJS.ProcessEnv): Config {
  const flags = parseFlags(settings, args);
  const merged = mergeSettings(settings, flags, env, flags.values.config ?? env.RUNNEL_CONFIG);
  const { config, sourceOf } = merged;
  refuse([
    ...runnerFaults(config, sourceOf),
    ...manyRunnersFaults(config, sourceOf),
    ...placeFaults(merged, env),
    ...callbackFaults(merged),
    ...orderFaults(merged),
    ...modelFaults(merged),
    ...journalFaults(merged),
  ]);
  if (sourceOf('threads') !== undefined) return config;
  return Object.freeze({ ...config, threads: Math.max(1, Math.floor(config.threads / config.runners)) });
}

type MergedConfig = Merged<typeof settings>;

/** Sentences about settings that exclude several runners. */
export function manyRunnersFaults(config: Config, sourceOf: MergedConfig['sourceOf']): string[] {
  const { runners, record } = config;
  if (runners === 1) return [];
  const wanted = `${sourceOf('runners')} ${runners}`;
  const faults: string[] = [];
  // Without cuda-runner, the automatic choice is the CPU for as long as this process runs.
  const asked = backendOf(config);
  const isCpu = asked === 'cpu' || (asked === 'auto' && notRunnable(config['cuda-runner']) !== undefined);
  if (!isCpu) faults.push(`${wanted} works only on the CPU: add --backend cpu.`);
  if (record !== undefined)
    faults.push(
      `${wanted} and ${sourceOf('record')} cannot be used together, since all runners would record to one file: leave one of them out.`,
    );
  return faults;
}

/** Faults of the settings that say where the server listens. */
function placeFaults({ config, sourceOf }: MergedConfig, env: NodeJS.ProcessEnv): string[] {
  const faults: string[] = [];
  const uds = sourceOf('uds');
  const tcp = sourceOf('host') ?? sourceOf('port');
  if (uds !== undefined && tcp !== undefined)
    faults.push(`${uds} and ${tcp} cannot be used together: leave one of them out.`);
  const place = uds ?? tcp;
  if (place !== undefined && passedSocket(env) !== undefined)
    faults.push(
      `${place} cannot be used, since systemd passes the socket to listen on: leave ${place} out and set ListenStream= in the socket unit.`,
    );
  if (!isLoopback(config.host) && config['api-keys-file'] === undefined)
    faults.push(
      `${sourceOf('host')} must be a loopback address, got ${JSON.stringify(config.host)}; to let others in, set --api-keys-file as well.`,
    );
  if (config.playground === 'dev' && (uds !== undefined || !isLoopback(config.host)))
    faults.push(
      `${sourceOf('playground')} dev lets everyone who reaches the page kill the runner, so it needs a loopback address: it cannot be used together with ${uds ?? sourceOf('host')}.`,
    );
  if (config['admin-keys-file'] !== undefined && config['api-keys-file'] === undefined)
    faults.push(
      `${sourceOf('admin-keys-file')} needs --api-keys-file too, since without it requests need no key at all; both may name the same file.`,
    );
  return faults;
}

/** Faults of the settings that say what the pool manager is told. */
function callbackFaults({ config, sourceOf }: MergedConfig): string[] {
  const url = sourceOf('callback-url');
  const advertised = sourceOf('advertise-url');
  if (url === undefined)
    return advertised === undefined
      ? []
      : [`${advertised} has no effect without --callback-url: leave it out.`];
  if (advertised !== undefined || !isUnspecified(config.host)) return [];
  return [
    `${url} needs --advertise-url with ${sourceOf('host')} ${config.host}, an address at which the pool manager cannot reach this worker.`,
  ];
}

/** Whether models are loaded on demand. A single model is loaded at the start. */
export function hasSeveralModels(config: Pick<Config, 'model' | 'models-dir'>): boolean {
  return typeof config.model !== 'string' || config['models-dir'] !== undefined;
}

/** Faults of settings for one model that are given with several models, and the other way round. */
function modelFaults({ config, sourceOf }: MergedConfig): string[] {
  const isSeveral = hasSeveralModels(config);
  const unknown = isSeveral ? OF_ONE_MODEL : OF_SEVERAL_MODELS;
  return unknown.flatMap((name) => {
    const source = sourceOf(name);
    if (source === undefined) return [];
    if (!isSeveral) return [`${source} works only with several models: leave it out.`];
    return [`${source} ${OF_ONE_MODEL_WHY[name as (typeof OF_ONE_MODEL)[number]]}.`];
  });
}

const OF_SEVERAL_MODELS = ['pinned-models', 'memory-budget-bytes', 'model-keep-alive-sec'] as const;
const OF_ONE_MODEL_WHY = {
  'served-model-name': 'names one model, and there are several: write --model NAME=MODEL for each',
  record: 'records the runner of one model, and there are several: leave it out',
} as const;
const OF_ONE_MODEL = [
  'served-model-name',
  'record',
] as const satisfies readonly (keyof typeof OF_ONE_MODEL_WHY)[];

const OF_JOURNAL = ['journal-max-jobs', 'journal-max-bytes', 'journal-keep-sec'] as const;

function journalFaults({ config, sourceOf }: MergedConfig): string[] {
  if (config['journal-dir'] !== undefined) return [];
  return OF_JOURNAL.flatMap((name) => {
    const source = sourceOf(name);
    return source === undefined ? [] : [`${source} has no effect without --journal-dir: leave it out.`];
  });
}

/** Pairs of settings of which the first must not exceed the second. */
const ORDERED = [
  ['max-body-bytes', 'max-body-bytes-in-flight'],
  ['headers-timeout-sec', 'request-timeout-sec'],
] as const satisfies readonly (readonly [keyof Config, keyof Config])[];

function orderFaults({ config }: MergedConfig): string[] {
  const faults = ORDERED.filter(([less, more]) => config[less] > config[more]).map(
    ([less, more]) => `--${less} must be at most --${more}, got ${config[less]} and ${config[more]}.`,
  );
  if (4 * config['max-body-bytes'] > config['max-answer-bytes-in-flight'])
    faults.push(
      `--max-body-bytes must be at most a quarter of --max-answer-bytes-in-flight, got ${config['max-body-bytes']} and ${config['max-answer-bytes-in-flight']}: each byte of a body may become a token, which is held as four bytes.`,
    );
  return faults;
}

/** The configuration as JSON that --config accepts. Reading it again gives the same configuration. */
export function printConfig(config: Config): string {
  const unknown: readonly string[] = [
    ...UNKNOWN_TO[backendOf(config)],
    ...(config.uds === undefined ? [] : ['host', 'port']),
    ...(hasSeveralModels(config) ? OF_ONE_MODEL : OF_SEVERAL_MODELS),
    ...(config.model.length === 0 ? ['model'] : []),
  ];
  const { host, port, ...others } = config;
  const printed = Object.entries({ host, port, ...others }).filter(
    ([name, value]) => !unknown.includes(name) || (name === 'gpu-device' && value === -1),
  );
  return `${JSON.stringify(Object.fromEntries(printed), null, 2)}\n`;
}

export function configHelp(): string {
  return settingsHelp(settings);
}
