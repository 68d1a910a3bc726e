import { randomUUID } from 'node:crypto';
import { CAPABILITIES } from '../api/operator/capabilities.ts';
import { answerOutside, answerUnreadable } from '../api/outside-answers.ts';
import {
  type Config,
  configHelp,
  hasSeveralModels,
  NO_JOURNAL,
  printConfig,
  readConfig,
} from '../config/config.ts';
import { prose } from '../config/help.ts';
import { ExitCode } from '../errors/exit-code.ts';
import type { DurableJobs } from '../journal/durable-jobs.ts';
import { modelIdOf } from '../models/model.ts';
import type { ModelRegistry } from '../models/model-registry.ts';
import { workerStatus } from '../models/worker-status.ts';
import { playgroundOf } from '../playground/playground-of.ts';
import { memoryOf } from '../runner/process/memory.ts';
import type { RunnerInfo } from '../runner/runner.ts';
import { DeferredApp } from '../server/deferred-app.ts';
import { ownDescriptors } from '../server/descriptor-budget.ts';
import { type Address, close, createHttpServer, listen, stopAccepting } from '../server/http-server.ts';
import { type CallbackError, ReadyCallback, type ReadyMessage } from '../server/ready-callback.ts';
import { systemClock } from '../system/clock.ts';
import { endSignal } from '../system/end-signal.ts';
import { keepSpawnReserve } from '../system/spawn-reserve.ts';
import { createNotifier } from '../systemd/notifier.ts';
import { passedSocket } from '../systemd/passed-socket.ts';
import { statusLine } from '../systemd/status-line.ts';
import { CrashReports } from '../telemetry/crash-reports.ts';
import { createLog, type Log } from '../telemetry/log.ts';
import { inSnakeCase } from '../telemetry/runner-log.ts';
import { firstKind } from './choose-launcher.ts';
import { FirstLoad, type LoadFailure } from './first-load.ts';
import { theModelOf } from './model-list.ts';
import { serveOne } from './one-model.ts';
import { announced, reload, reloadKeys } from './reload.ts';
import { reporting, tellStderr } from './report.ts';
import { addressOf, guardRules, httpLimits, requireUsableAddress } from './server-settings.ts';
import { announceRun } from './servers/run-folder.ts';
import type { Serving, ServingEvents } from './serving.ts';
import { serveSeveral } from './several-models.ts';
import { curlLine, formatAddress, startupBanner } from './startup-banner.ts';

export function serveUsage(): string {
  return [
    'Usage: runnel serve --model MODEL [options]',
    '',
    prose(
      'Serves one or several models over HTTP. After SIGTERM or SIGINT it finishes open requests, then ends.',
    ),
    '',
    configHelp([
      { group: 'General', flag: PRINT_CONFIG, help: 'Print all resulting settings as such a file, and exit' },
    ]),
    '',
    'Examples:',
    '  runnel serve --model smollm2',
    '  runnel serve --model chat=smollm2 --model other=model.gguf --port 0',
    '  runnel serve --model smollm2 --max-num-seqs 16 --print-config',
  ].join('\n');
}

/** `runnel serve`: listens for HTTP first, then loads the model, and serves until it is told to end. */
export function serveCommand(args: string[]): Promise<number> {
  return reporting(async () => {
    const isPrinted = args.includes(PRINT_CONFIG);
    const config = readConfig(
      args.filter((arg) => arg !== PRINT_CONFIG),
      process.env,
    );
    if (!isPrinted) return serve(config, () => readConfig(args, process.env));
    process.stdout.write(printConfig(config));
    return ExitCode.ok;
  });
}

const PRINT_CONFIG = '--print-config';

/** Starts the log and serves. From the first line on, stderr has only lines of the log, errors included. */
function serve(config: Config, readAgain: () => Config): Promise<number> {
  const about: LogFields = {
    worker_id: config['worker-id'] ?? randomUUID(),
    model: hasSeveralModels(config) ? undefined : theModelOf(config).path,
    port: config.port,
  };
  const guard = guardRules(config);
  const level = config['log-level'];
  const log = createLog(level, () => ({ ...about }));
  const kind = firstKind(config);
  log.info({ event: 'startup', msg: kind === undefined ? 'Worker starting' : `${kind} worker starting` });
  // A silent log leaves stderr to sentences for people.
  const tell: Tell =
    level === 'silent' ? tellStderr : (msg, facts) => log.error({ event: 'error', ...facts, msg });
  return reporting(() => run({ config, readAgain, guard, about, log, tell }), tell);
}

/** Takes a sentence about the error that ends the process. */
type Tell = (sentence: string, facts?: object) => void;

/** The fields of every line of the log. */
interface LogFields {
  readonly worker_id: string;
  /** The path of the model; undefined if several are served. */
  model: string | undefined;
  port: number;
}

interface Worker {
  readonly config: Config;
  readonly readAgain: () => Config;
  readonly guard: ReturnType<typeof guardRules>;
  readonly about: LogFields;
  readonly log: Log;
  readonly tell: Tell;
}

async function run({ config, readAgain, guard, about, log, tell }: Worker): Promise<number> {
  let place = '';
  let curl = '';
  const crashes = new CrashReports({
    folder: config['crash-reports-dir'],
    recording: config.record,
    log,
    now: Date.now,
  });
  const callback = new ReadyCallback(config['callback-url'], log);
  const playground = playgroundOf(config, () => serving.models.all.map(({ runner }) => runner.status()));
  const firstLoad = new FirstLoad();
  let isGreeted = false;
  const events: ServingEvents = {
    log,
    onEvent: (event) => firstLoad.observe(event),
    onServed: (info, model) => {
      const hasPage = config.uds === undefined && playground?.page !== undefined;
      if (!isSeveral) about.model = model.path;
      log.info({
        event: 'ready',
        uri: place,
        ...(isSeveral ? { model: model.path } : {}),
        ...memoryOf(info),
      });
      const name = serving.models.default.names[0] ?? model.id;
      if (!isGreeted) console.log(startupBanner(place, curl, name, hasPage));
      isGreeted = true;
      jobs?.onServed();
      void callback.send(readyMessage(about.worker_id, config['advertise-url'] ?? place, model.id, info));
    },
    onCrash: (crash, model) => crashes.add(crash, model),
  };
  const isSeveral = hasSeveralModels(config);
  const serving: Serving = isSeveral ? serveSeveral(config, events) : serveOne(config, events);
  const { models } = serving;
  const jobs = await jobsIn(config['journal-dir'], config, models, log);
  const reloadAll = (only: string | undefined): Promise<string | undefined> => {
    // Keys are read first: a key that was revoked must not stay valid because other settings cannot be used.
    reloadKeys(guard.apiKeys, log);
    const { config: next, notApplied } = reload(config, readAgain());
    const reloaded = serving.reload(next, only);
    if (notApplied.length > 0) log.warn({ event: 'settings_not_applied', settings: notApplied });
    return reloaded;
  };
  const restartRunner = (only?: string): Promise<string | undefined> =>
    announced(notifier, () => reloadAll(only));
  process.on('SIGHUP', () => {
    try {
      void restartRunner();
    } catch (error) {
      log.error({ event: 'settings_unusable', msg: (error as Error).message });
    }
  });
  const app = new DeferredApp(async () => {
    const { createApp } = await import('../app.ts');
    return createApp({
      models,
      log,
      jobs,
      metrics: serving.metrics,
      crashes: () => crashes.newest,
      restartRunner,
      now: Date.now,
      monotonicNow: systemClock.now,
      maxBodyBytes: config['max-body-bytes'],
      maxBodyBytesInFlight: config['max-body-bytes-in-flight'],
      maxAnswerBytesInFlight: config['max-answer-bytes-in-flight'],
      tokenLimits: { maxTokensIn: config['max-tokens-in'], maxTokensOut: config['max-tokens-out'] },
      pooling: config.pooling,
      guard,
      playground,
    });
  });

  const notifier = createNotifier(process.env, {
    status: () => statusLine(workerStatus(models), modelsText(models, about.model)),
    log,
  });
  const limits = httpLimits(config, ownDescriptors());
  keepSpawnReserve();
  if (limits.maxConnections < config['max-connections'])
    log.warn({ event: 'connections_limited', max_connections: limits.maxConnections });
  const server = createHttpServer(app.fetch, limits, {
    onStalled: (heldBytes) => log.info({ event: 'client_stalled', held_bytes: heldBytes }),
    onError: (error) => answerOutside(error, log),
    onUnreadable: (error) => answerUnreadable(error, log),
  });
  const passed = passedSocket(process.env);
  let address: Address;
  try {
    address = await listen(server, passed ?? addressOf(config));
  } catch (error) {
    const taken = config.uds ?? `${config.host}:${config.port}`;
    const wanted = passed === undefined ? taken : 'the socket that systemd passes';
    const { code, message } = error as NodeJS.ErrnoException;
    const isTaken = code === 'EADDRINUSE' && passed === undefined;
    const hint = isTaken ? '. Another server listens there: end it, or choose another --port or --uds' : '';
    tell(`Failed to bind to ${wanted}: ${message}${hint}`);
    await jobs?.stop();
    return ExitCode.bindFailed;
  }
  try {
    // The address is checked before the first connection is handled.
    requireUsableAddress(address, config);
  } catch (error) {
    await close(server);
    await jobs?.stop();
    throw error;
  }
  about.port = 'port' in address ? address.port : 0;
  place = formatAddress(address);
  curl = curlLine(address, guard.apiKeys !== undefined);
  // The file is written before anybody can learn that the server listens.
  announceRun(address, log);
  console.log(
    `Runnel listens on ${place} and ${about.model === undefined ? `serves ${models.all.length} models` : `loads ${about.model}`}`,
  );
  log.info({ event: 'listening', url: place });
  serving.start();
  notifier?.ready();
  // Signals are handled from here on.
  const told = endSignal();
  await app.load();

  const end = await Promise.race([
    told,
    callback.failed.then(callbackFailure),
    // A pool manager that waits for readiness must learn that the model will never be ready.
    ...(config['callback-url'] === undefined ? [] : [firstLoad.failed.then(modelFailure)]),
  ]);
  notifier?.stopping();
  // New connections wait in systemd's socket for the next gateway.
  const closed = passed === undefined ? undefined : stopAccepting(server);
  const isFailure = typeof end !== 'string';
  if (isFailure) tell(end.message, { code: end.code, exit_code: end.exitCode, ...end.facts });
  log.info({
    event: 'shutdown',
    reason: isFailure ? end.reason : end,
    open_requests: workerStatus(models).openRequests,
  });
  // The next gateway continues the open jobs.
  await jobs?.stop();
  await serving.stop(isFailure ? 0 : config['drain-timeout-sec'] * 1000);
  await close(server, closed);
  log.info({ event: 'stopped' });
  notifier?.close();
  return isFailure ? end.exitCode : ExitCode.ok;
}

/** folder: as in --journal-dir. */
async function jobsIn(
  folder: string | undefined,
  config: Config,
  models: ModelRegistry,
  log: Log,
): Promise<DurableJobs | undefined> {
  if (folder === NO_JOURNAL) return undefined;
  const { openDefaultJournal, openJournal } = await import('./open-journal.ts');
  if (folder === undefined) return openDefaultJournal(config, models, log);
  return openJournal(folder, config, models, log);
}

/** Why the process ends by itself. */
interface End {
  readonly reason: string;
  readonly code: string;
  readonly message: string;
  readonly exitCode: number;
  /** Further fields of the log line. */
  readonly facts?: object;
}

function callbackFailure({ message }: CallbackError): End {
  return { reason: 'callback', code: 'CALLBACK_FAILED', message, exitCode: ExitCode.unavailable };
}

function modelFailure({ reason, exitCode, ...facts }: LoadFailure): End {
  const code = 'MODEL_LOAD_FAILED';
  return { reason: 'model', code, message: reason, exitCode, facts: inSnakeCase(facts) };
}

/** The served models in a few words. */
function modelsText(models: ModelRegistry, path: string | undefined): string {
  if (path !== undefined) return modelIdOf(path);
  const numLoaded = models.all.filter(({ residency }) => residency.state === 'loaded').length;
  return `${numLoaded} of ${models.all.length} models loaded`;
}

function readyMessage(workerId: string, uri: string, modelId: string, info: RunnerInfo): ReadyMessage {
  const memory = memoryOf(info);
  return {
    worker_id: workerId,
    vram_bytes: memory.vram_bytes,
    uri,
    memory_bytes: memory.memory_bytes,
    memory_type: memory.memory_type,
    memory_architecture: memory.memory_type,
    model_ref: modelId,
    worker_type: info.kind,
    capabilities: CAPABILITIES,
  };
}
