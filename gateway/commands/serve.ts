import { createApp } from '../app.ts';
import { type Config, configHelp, printConfig, readConfig } from '../config.ts';
import { resolveModel } from '../model/model-cache.ts';
import { ModelSlot } from '../model/model-slot.ts';
import { ExitCode } from '../ops/exit-code.ts';
import { type Address, close, createHttpServer, listen } from '../ops/http-server.ts';
import { createLog } from '../ops/log.ts';
import { Supervisor } from '../runner/supervisor.ts';
import { curlLine, greeting, placeOf } from './greeting.ts';
import { reporting } from './report.ts';
import { runnerCommand } from './runner-command.ts';
import { addressOf, guardRules, httpLimits } from './server-settings.ts';

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
    if (!isPrinted) return serve(config);
    process.stdout.write(printConfig(config));
    return ExitCode.ok;
  });
}

const PRINT_CONFIG = '--print-config';

async function serve(config: Config): Promise<number> {
  const log = createLog(config['log-level']);
  const slot = new ModelSlot(resolveModel(config.model));
  const guard = guardRules(config);
  let place = '';
  let curl = '';
  const supervisor = new Supervisor({
    prepare: () => slot.refresh(),
    command: () => runnerCommand(config, slot),
    modelPath: slot.path,
    maxOpenRequests: config['max-open-requests'],
    log: ({ level, ...event }) => log[level](event),
    onReady: () => {
      if (supervisor.status().restarts === 0 && slot.current)
        console.log(greeting(place, curl, slot.current));
    },
  });
  const app = createApp({
    model: () => slot.current,
    runner: supervisor,
    log,
    now: Date.now,
    maxBodyBytes: config['max-body-bytes'],
    guard,
  });

  const server = createHttpServer(app.fetch, httpLimits(config));
  let address: Address;
  try {
    address = await listen(server, addressOf(config));
  } catch (error) {
    const wanted = config.uds ?? `${config.host}:${config.port}`;
    console.error(`runnel: Failed to bind to ${wanted}: ${(error as Error).message}`);
    return ExitCode.bindFailed;
  }
  place = placeOf(address);
  curl = curlLine(address, guard.apiKeys !== undefined);
  console.log(`Runnel listens on ${place} and loads ${slot.path}`);
  log.info({ event: 'listening', url: place, model: slot.path });
  supervisor.start();

  const signal = await firstSignal();
  log.info({ event: 'stopping', signal, open_requests: supervisor.status().openRequests });
  await supervisor.stop(config['drain-timeout-sec'] * 1000);
  await close(server);
  log.info({ event: 'stopped' });
  return ExitCode.ok;
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
