import { type Config, hasSeveralModels, printConfig, readConfig } from '../config/config.ts';
import { toggle } from '../config/kinds.ts';
import { NO_TRACES, serveSettings } from '../config/serve-settings.ts';
import { ExitCode } from '../errors/exit-code.ts';
import { modelIdOf } from '../models/model.ts';
import { type ModelRegistry, workerStatus } from '../models/model-registry.ts';
import { endSignal } from '../system/end-signal.ts';
import { randomIds } from '../system/ids.ts';
import { createNotifier, statusLine } from '../systemd/notifier.ts';
import { passedSocket } from '../systemd/passed-socket.ts';
import { createLog, type Log } from '../telemetry/log.ts';
import type { Tracing } from '../telemetry/tracing.ts';
import { firstKind } from './choose-launcher.ts';
import { type Command, usageOf } from './command.ts';
import { Gateway } from './gateway.ts';
import { modelsOf } from './model-list.ts';
import { announced } from './reload.ts';
import { reporting, tellStderr } from './report.ts';
import { guardRules } from './server-settings.ts';
import { announceRun } from './servers/run-folder.ts';
import { curlLine, formatAddress, startupBanner } from './startup-banner.ts';

const printsConfig = toggle()
  .help('Print all resulting settings as such a file, and exit')
  .with({ group: 'General', isOnlyFlag: true });

/** `runnel serve`: listens for HTTP first, then loads the model, and serves until it is told to end. */
export const serve: Command = {
  usage: () =>
    usageOf(
      {
        forms: ['serve --model MODEL [options]'],
        about:
          'Serves one or several models over HTTP. After SIGTERM or SIGINT it finishes open requests, then ends.',
        examples: [
          'runnel serve --model smollm2',
          'runnel serve --model chat=smollm2 --model other=model.gguf --port 0',
          'runnel serve --model smollm2 --max-num-seqs 16 --print-config',
        ],
      },
      { 'print-config': printsConfig, ...serveSettings },
    ),
  run: (args) =>
    reporting(async () => {
      const own = args.filter((arg) => arg !== '--print-config');
      const config = readConfig(own, process.env);
      if (own.length === args.length) return serveWith(config, () => readConfig(args, process.env));
      process.stdout.write(printConfig(config));
      return ExitCode.ok;
    }),
};

/** Starts the log and serves. From the first line on, stderr has only lines of the log, errors included. */
function serveWith(config: Config, readAgain: () => Config): Promise<number> {
  const about: LogFields = {
    worker_id: config['worker-id'] ?? randomIds.uuid(),
    model: hasSeveralModels(config) ? undefined : modelsOf(config)[0]?.path,
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
  let curl = '';
  let isGreeted = false;
  let place = '';
  let onSignal: (signal: string) => void = () => {};
  const told = new Promise<string>((resolve) => (onSignal = resolve));
  const tracing = await tracingOf(config, about.worker_id, log);
  const gateway = new Gateway(config, {
    ...{ log, guard, tracing, readAgain, workerId: about.worker_id, passed: passedSocket(process.env) },
    announced: (reload) => announced(notifier, reload),
    onListening: (address) => {
      about.port = 'port' in address ? address.port : 0;
      place = formatAddress(address);
      curl = curlLine(address, guard.apiKeys !== undefined);
      // The file is written before anybody can learn that the server listens.
      announceRun(address, log);
      console.log(
        `Runnel listens on ${place} and ${about.model === undefined ? `serves ${models.all.length} models` : `loads ${about.model}`}`,
      );
      log.info({ event: 'listening', url: place });
      notifier?.ready();
      // Signals are handled from here on.
      void endSignal().then(onSignal);
    },
    onServed: (_, model) => {
      const hasPage = config.uds === undefined && gateway.playground?.page !== undefined;
      if (about.model !== undefined) about.model = model.path;
      const name = models.default.names[0] ?? model.id;
      if (!isGreeted) console.log(startupBanner(place, curl, name, hasPage));
      isGreeted = true;
    },
  });
  const { models } = gateway;
  const notifier = createNotifier(process.env, {
    status: () => statusLine(workerStatus(models), modelsText(models, about.model)),
    log,
  });
  process.on('SIGHUP', () => {
    try {
      void announced(notifier, () => gateway.reload());
    } catch (error) {
      log.error({ event: 'settings_unusable', msg: (error as Error).message });
    }
  });
  await gateway.start();
  const end = await Promise.race([told, gateway.failed]);
  notifier?.stopping();
  const isFailure = typeof end !== 'string';
  if (isFailure) tell(end.message, { code: end.code, exit_code: end.exitCode, ...end.facts });
  log.info({
    event: 'shutdown',
    reason: isFailure ? end.reason : end,
    open_requests: workerStatus(models).openRequests,
  });
  await gateway.stop(isFailure ? 0 : config['drain-timeout-sec'] * 1000);
  log.info({ event: 'stopped' });
  notifier?.close();
  return isFailure ? end.exitCode : ExitCode.ok;
}

/** Undefined if traces are not exported: then nothing of OpenTelemetry's SDK is loaded. */
async function tracingOf(config: Config, workerId: string, log: Log): Promise<Tracing | undefined> {
  const endpoint = config['otlp-endpoint'];
  if (endpoint === NO_TRACES) return undefined;
  const { exportedTraces } = await import('../telemetry/tracing.ts');
  return exportedTraces(endpoint, workerId, log);
}

/** The served models in a few words. */
function modelsText(models: ModelRegistry, path: string | undefined): string {
  if (path !== undefined) return modelIdOf(path);
  const numLoaded = models.all.filter(({ loadState }) => loadState.state === 'loaded').length;
  return `${numLoaded} of ${models.all.length} models loaded`;
}
