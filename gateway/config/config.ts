import { refuse } from '../errors/exit-code.ts';
import { notRunnable } from '../runner/backends/devices.ts';
import { passedSocket } from '../systemd/passed-socket.ts';
import { parseFlags } from './flags.ts';
import { isLoopback, isUnspecified } from './kinds.ts';
import { backendOf, clash, runnerFaults, UNKNOWN_TO } from './runner-settings.ts';
import { serveSettings } from './serve-settings.ts';
import type { ConfigOf } from './setting.ts';
import { type Merged, mergeSettings } from './settings.ts';

/** The settings of `runnel serve`. */
export type Config = ConfigOf<typeof serveSettings>;

/**
 * Throws one UsageError for all settings that cannot be used. Each of its sentences names the source of a setting, its value
 * and what it takes.
 */
export function readConfig(args: readonly string[], env: NodeJS.ProcessEnv): Config {
  const flags = parseFlags(serveSettings, args);
  const merged = mergeSettings(serveSettings, flags, env, flags.values.config ?? env.RUNNEL_CONFIG);
  const { config, sourceOf } = merged;
  refuse([
    ...runnerFaults(config, sourceOf),
    ...manyRunnersFaults(config, sourceOf),
    ...placeFaults(merged, env),
    ...callbackFaults(merged),
    ...orderFaults(merged),
    ...modelFaults(merged),
    ...journalFaults(merged),
    ...auditFaults(merged),
    ...kvDiskFaults(merged),
  ]);
  return config;
}

type MergedConfig = Merged<typeof serveSettings>;

/** Sentences about settings that exclude several runners. */
export function manyRunnersFaults(config: Config, sourceOf: MergedConfig['sourceOf']): string[] {
  const { runners, record } = config;
  if (runners === 1) return [];
  const wanted = `${sourceOf('runners')} ${runners}`;
  const faults: string[] = [];
  // Without cuda-runner, the automatic choice is the CPU for as long as this process runs.
  const isChoice = backendOf(config) === 'auto' && notRunnable(config['cuda-runner']) === undefined;
  if (isChoice)
    faults.push(`${wanted} works only where all of them compute on the same: add --backend cpu or cuda.`);
  if (record !== undefined)
    faults.push(
      `${wanted} and ${sourceOf('record')} cannot be used together, since all runners would record to one file: leave one of them out.`,
    );
  return faults;
}

/** Faults of the settings that say where the server listens. */
function placeFaults({ config, sourceOf }: MergedConfig, env: NodeJS.ProcessEnv): string[] {
  const uds = sourceOf('uds');
  const tcp = sourceOf('host') ?? sourceOf('port');
  const faults = clash(uds, tcp);
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
  const faults = hasSeveralModels(config)
    ? Object.entries(OF_ONE_MODEL)
    : OF_SEVERAL_MODELS.map((name) => [name, 'works only with several models: leave it out'] as const);
  return faults.flatMap(([name, fault]) => {
    const source = sourceOf(name as keyof Config);
    return source === undefined ? [] : [`${source} ${fault}.`];
  });
}

const OF_SEVERAL_MODELS = [
  'pinned-models',
  'memory-budget-bytes',
  'model-keep-alive-sec',
  'time-slice',
  'client-unload',
] as const;
/** Settings for one model, and what to do instead with several. */
const OF_ONE_MODEL = {
  'served-model-name': 'names one model, and there are several: write --model NAME=MODEL for each',
  record: 'records the runner of one model, and there are several: leave it out',
  'audit-share': 'computes answers of one model again, and there are several: leave it out',
  'gpu-memory-utilization':
    'is a share of the device for one model, and there are several: use --kv-cache-bytes, which is for each',
} as const;

/** The value of --journal-dir with which no journal is kept. */
export const NO_JOURNAL = 'off';

const OF_JOURNAL = [
  'journal-max-jobs',
  'journal-max-bytes',
  'journal-keep-sec',
  'max-file-bytes',
  'files-max-bytes',
  'batch-open-lines',
] as const;

function journalFaults({ config, sourceOf }: MergedConfig): string[] {
  if (config['journal-dir'] !== NO_JOURNAL) return [];
  return OF_JOURNAL.flatMap((name) => {
    const source = sourceOf(name);
    return source === undefined
      ? []
      : [`${source} has no effect with --journal-dir ${NO_JOURNAL}: leave it out.`];
  });
}

/** Pairs of settings of which the first must not exceed the second. */
const ORDERED = [
  ['max-file-bytes', 'files-max-bytes'],
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
    ...(hasSeveralModels(config) ? Object.keys(OF_ONE_MODEL) : OF_SEVERAL_MODELS),
    ...(config['journal-dir'] === NO_JOURNAL ? OF_JOURNAL : []),
    ...(config.model.length === 0 ? ['model'] : []),
  ];
  const { host, port, ...others } = config;
  const printed = Object.entries({ host, port, ...others }).filter(
    ([name, value]) => !unknown.includes(name) || (name === 'gpu-device' && value === -1),
  );
  return `${JSON.stringify(Object.fromEntries(printed), null, 2)}\n`;
}

function auditFaults({ config, sourceOf }: MergedConfig): string[] {
  if (config['audit-policy'] === 'report') return [];
  const policy = `${sourceOf('audit-policy')} ${config['audit-policy']}`;
  if (config['audit-share'] === 0)
    return [`${policy} has no effect without --audit-share: leave it out, or add --audit-share.`];
  const backend = backendOf(config);
  if (backend === 'auto') return [];
  return [
    `${policy} needs a device to retire and a CPU to go on with, and the backend ${backend} is one of them only: leave it out, or use --backend auto.`,
  ];
}

/** Faults of the settings of the file that keeps KV caches: it has what runners on the CPU keep in memory. */
function kvDiskFaults({ config, sourceOf }: MergedConfig): string[] {
  const file = sourceOf('kv-disk');
  const size = sourceOf('kv-disk-bytes');
  if (file === undefined)
    return size === undefined ? [] : [`${size} has no effect without --kv-disk: leave it out.`];
  const faults = clash(file, sourceOf('record'));
  if (size === undefined) faults.push(`${file} needs --kv-disk-bytes, the size of the file.`);
  if (config['keep-kv'] === 'off') faults.push(...clash(file, `${sourceOf('keep-kv')} off`));
  if (backendOf(config) === 'cuda')
    faults.push(`${file} keeps what the CPU computes, and the backend is cuda: leave it out.`);
  return faults;
}
