import { randomUUID } from 'node:crypto';
import { answerOutside, createApp } from '../app.ts';
import type { Launch } from '../backend/launch.ts';
import { type Config, configHelp, printConfig, readConfig } from '../config.ts';
import { modelIdOf } from '../model/model.ts';
import { resolveModel } from '../model/model-cache.ts';
import { CrashReports } from '../ops/crash-reports.ts';
import { ExitCode } from '../ops/exit-code.ts';
import { type Address, close, createHttpServer, listen, stopAccepting } from '../ops/http-server.ts';
import { createLog } from '../ops/log.ts';
import { MeteredRunner } from '../ops/metered-runner.ts';
import { Metrics } from '../ops/metrics.ts';
import { CallbackError, ReadyCallback, type ReadyMessage } from '../ops/ready-callback.ts';
import { createNotifier } from '../ops/systemd/notifier.ts';
import { passedSocket } from '../ops/systemd/passed-socket.ts';
import { statusLine } from '../ops/systemd/status-line.ts';
import { CAPABILITIES } from '../routes/health.ts';
import { crashKind } from '../runner/crash.ts';
import { memoryOf } from '../runner/memory.ts';
import type { RunnerInfo } from '../runner/runner.ts';
import { TimeLimitedRunner } from '../runner/time-limited-runner.ts';
import { Gate } from '../serving/gate.ts';
import { Serving } from '../serving/serving.ts';
import { chooseLaunch } from './choose-launch.ts';
import { curlLine, greeting, placeOf } from './greeting.ts';
import { announced, reload, reloadKeys } from './reload.ts';
import { reporting } from './report.ts';
import { addressOf, guardRules, httpLimits, requireKeysBeyondLoopback } from './server-settings.ts';

export function serveUsage(): string {
  return [
    'Usage: runnel serve --model MODEL [options]',
    '',
    configHelp(),
    '--print-config prints the settings that result from all of them as such a file, and ends.',
  ].join('\n');
}

/** `runnel serve`: HTTP first, then the model, until SIGTERM or SIGINT. */
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

async function serve(config: Config, readAgain: () => Config): Promise<number> {
  const workerId = config['worker-id'] ?? randomUUID();
  let modelPath = resolveModel(config.model);
  const guard = guardRules(config);
  let port = config.port;
  let place = '';
  let curl = '';
  const log = createLog(config['log-level'], () => ({ worker_id: workerId, model: modelPath, port }));
  log.info({ event: 'startup', msg: 'Worker starting' });

  const crashes = new CrashReports({
    folder: config['crash-reports-dir'],
    recording: config.record,
    log,
    now: Date.now,
  });
  const callback = new ReadyCallback(config['callback-url'], log);
  const gate = new Gate({
    maxWaiting: config['max-open-requests'],
    maxWaitMs: config['inference-timeout-sec'] * 1000,
    now: Date.now,
    onRefused: ({ code }) => metrics.refused(code.toLowerCase()),
  });
  const launchOf = (settings: Config): Launch =>
    chooseLaunch(settings, {
      log: ({ level, ...event }) => log[level](event),
      moveBack: (cuda) => serving.relaunch(cuda),
    });
  let isGreeted = false;
  const serving: Serving = new Serving(modelPath, launchOf(config), {
    gate,
    drainMs: config['drain-timeout-sec'] * 1000,
    maxOpenRequests: config['max-open-requests'],
    maxQueuedTokens: config['max-queued-tokens'],
    limits: { wedgeMs: config['wedge-timeout-sec'] * 1000 },
    log: ({ level, ...event }) => log[level](event),
    onServed: (info, model) => {
      modelPath = model.path;
      log.info({ event: 'ready', uri: place, ...memoryOf(info) });
      if (!isGreeted) console.log(greeting(place, curl, model));
      isGreeted = true;
      void callback.send(readyMessage(workerId, place, model.id, info));
    },
    onCrash: (crash) => {
      metrics.crashed(crashKind(crash));
      crashes.add(crash);
    },
  });
  const reloadAll = (): Promise<string | undefined> => {
    // First: that a key is taken back does not wait for settings that can be used.
    reloadKeys(guard.apiKeys, log);
    const { config: next, notApplied } = reload(config, readAgain());
    const path = resolveModel(next.model);
    const launch = launchOf(next);
    if (notApplied.length > 0) log.warn({ event: 'settings_not_applied', settings: notApplied });
    return serving.change(path, launch);
  };
  const restartRunner = (): Promise<string | undefined> => announced(notifier, reloadAll);
  process.on('SIGHUP', () => {
    try {
      void restartRunner();
    } catch (error) {
      log.error({ event: 'settings_unusable', msg: (error as Error).message });
    }
  });
  const metrics = new Metrics(() => serving.status(), Date.now);
  const limited = new TimeLimitedRunner(serving, config['inference-timeout-sec'] * 1000, Date.now);
  const app = createApp({
    model: () => serving.model,
    runner: new MeteredRunner(limited, metrics),
    gate,
    log,
    metrics,
    crashes: () => crashes.newest,
    restartRunner,
    now: Date.now,
    maxBodyBytes: config['max-body-bytes'],
    maxBodyBytesInFlight: config['max-body-bytes-in-flight'],
    maxAnswerBytesInFlight: config['max-answer-bytes-in-flight'],
    guard,
  });

  const notifier = createNotifier(process.env, {
    status: () => statusLine(serving.status(), modelIdOf(modelPath)),
    log,
  });
  const server = createHttpServer(app.fetch, httpLimits(config), {
    onStalled: (heldBytes) => log.info({ event: 'client_stalled', held_bytes: heldBytes }),
    onError: (error) => answerOutside(error, log),
  });
  const passed = passedSocket(process.env);
  let address: Address;
  try {
    address = await listen(server, passed ?? addressOf(config));
  } catch (error) {
    const taken = config.uds ?? `${config.host}:${config.port}`;
    const wanted = passed === undefined ? taken : 'the socket that systemd passes on';
    const message = `Failed to bind to ${wanted}: ${(error as Error).message}`;
    log.error({ event: 'error', msg: message });
    console.error(`runnel: ${message}`);
    return ExitCode.bindFailed;
  }
  try {
    // Before the first connection is looked at.
    requireKeysBeyondLoopback(address, config);
  } catch (error) {
    await close(server);
    throw error;
  }
  port = 'port' in address ? address.port : 0;
  place = placeOf(address);
  curl = curlLine(address, guard.apiKeys !== undefined);
  console.log(`Runnel listens on ${place} and loads ${modelPath}`);
  log.info({ event: 'listening', url: place });
  serving.start();
  notifier?.ready();

  const end = await Promise.race([firstSignal(), callback.failed]);
  notifier?.stopping();
  // What is not accepted any more waits in the socket that systemd holds, for the next gateway.
  const closed = passed === undefined ? undefined : stopAccepting(server);
  const isRefused = end instanceof CallbackError;
  if (isRefused) {
    log.error({ event: 'error', msg: end.message });
    console.error(`runnel: ${end.message}`);
  }
  log.info({
    event: 'shutdown',
    reason: isRefused ? 'callback' : end,
    open_requests: serving.status().openRequests,
  });
  await serving.stop(isRefused ? 0 : config['drain-timeout-sec'] * 1000);
  await close(server, closed);
  log.info({ event: 'stopped' });
  notifier?.close();
  return isRefused ? ExitCode.unavailable : ExitCode.ok;
}

function readyMessage(workerId: string, uri: string, modelId: string, info: RunnerInfo): ReadyMessage {
  const memory = memoryOf(info);
  return {
    worker_id: workerId,
    vram_bytes: memory.vram_bytes,
    memory_bytes: memory.memory_bytes,
    uri,
    memory_type: memory.memory_type,
    model_ref: modelId,
    worker_type: info.kind,
    capabilities: CAPABILITIES,
  };
}

/**
 * Resolves with the first SIGTERM or SIGINT; a second one ends the process at once. The listeners stay: execa has one
 * of its own, which ends the process by the signal when it finds itself alone.
 */
function firstSignal(): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    let seen = false;
    for (const signal of ['SIGTERM', 'SIGINT'] as const) {
      process.on(signal, () => {
        if (seen) process.exit(ExitCode.internal);
        seen = true;
        resolve(signal);
      });
    }
  });
}
