import { once } from 'node:events';
import type { Server } from 'node:http';
import { createAdaptorServer } from '@hono/node-server';
import { createApp } from '../app.ts';
import { type Config, configHelp, readConfig } from '../config.ts';
import { resolveModel } from '../model/model-cache.ts';
import { ModelSlot } from '../model/model-slot.ts';
import { ExitCode } from '../ops/exit-code.ts';
import { createLog } from '../ops/log.ts';
import { Supervisor } from '../runner/supervisor.ts';
import { greeting } from './greeting.ts';
import { reporting } from './report.ts';
import { runnerCommand } from './runner-command.ts';

export function serveUsage(): string {
  return `Usage: runnel serve --model MODEL [options]\n\n${configHelp()}`;
}

/** `runnel serve`: HTTP first, then the model, until SIGTERM or SIGINT. */
export function serveCommand(args: string[]): Promise<number> {
  return reporting(() => serve(readConfig(args, process.env)));
}

async function serve(config: Config): Promise<number> {
  const log = createLog(config['log-level']);
  const slot = new ModelSlot(resolveModel(config.model));
  let url = '';
  const supervisor = new Supervisor({
    prepare: () => slot.refresh(),
    command: () => runnerCommand(config, slot),
    modelPath: slot.path,
    maxOpenRequests: config['max-open-requests'],
    log: ({ level, ...event }) => log[level](event),
    onReady: () => {
      if (supervisor.status().restarts === 0 && slot.current) console.log(greeting(url, slot.current));
    },
  });
  const app = createApp({
    model: () => slot.current,
    runner: supervisor,
    log,
    now: Date.now,
    maxBodyBytes: config['max-body-bytes'],
  });

  const server = createAdaptorServer({ fetch: app.fetch }) as Server;
  const port = await listen(server, config);
  if (port instanceof Error) {
    console.error(`runnel: Failed to bind to ${config.host}:${config.port}: ${port.message}`);
    return ExitCode.bindFailed;
  }
  url = `http://${config.host.includes(':') ? `[${config.host}]` : config.host}:${port}`;
  console.log(`Runnel listens on ${url} and loads ${slot.path}`);
  log.info({ event: 'listening', url, model: slot.path });
  supervisor.start();

  const signal = await firstSignal();
  log.info({ event: 'stopping', signal, open_requests: supervisor.status().openRequests });
  await supervisor.stop(config['drain-timeout-sec'] * 1000);
  await close(server);
  log.info({ event: 'stopped' });
  return ExitCode.ok;
}

/** The port that was taken, or why none was. */
async function listen(server: Server, config: Config): Promise<number | Error> {
  server.listen(config.port, config.host);
  try {
    await once(server, 'listening');
  } catch (error) {
    return error as Error;
  }
  const address = server.address();
  return typeof address === 'object' && address !== null ? address.port : config.port;
}

/** How long the last bytes of streams that have ended may take to reach their clients. */
const FLUSH_MS = 2000;

async function close(server: Server): Promise<void> {
  const closed = once(server, 'close');
  server.close();
  server.closeIdleConnections();
  const timer = setTimeout(() => server.closeAllConnections(), FLUSH_MS);
  await closed;
  clearTimeout(timer);
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
