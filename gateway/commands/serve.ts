import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import type { Server } from 'node:http';
import { createAdaptorServer } from '@hono/node-server';
import { createApp } from '../app.ts';
import { type Config, configHelp, readConfig } from '../config.ts';
import { resolveModel } from '../model/model-cache.ts';
import { ModelSlot } from '../model/model-slot.ts';
import { ExitCode } from '../ops/exit-code.ts';
import { createLog } from '../ops/log.ts';
import { MeteredRunner } from '../ops/metered-runner.ts';
import { Metrics } from '../ops/metrics.ts';
import { CallbackError, ReadyCallback, type ReadyMessage } from '../ops/ready-callback.ts';
import { CAPABILITIES } from '../routes/health.ts';
import { memoryOf } from '../runner/memory.ts';
import type { RunnerInfo } from '../runner/runner.ts';
import { Supervisor } from '../runner/supervisor.ts';
import { TimeLimitedRunner } from '../runner/time-limited-runner.ts';
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
  const workerId = config['worker-id'] ?? randomUUID();
  const slot = new ModelSlot(resolveModel(config.model));
  let port = config.port;
  let url = '';
  const log = createLog(config['log-level'], () => ({ worker_id: workerId, model: slot.path, port }));
  log.info({ event: 'startup', msg: 'Worker starting' });

  const callback = new ReadyCallback(config['callback-url'], log);
  const supervisor = new Supervisor({
    prepare: () => slot.refresh(),
    command: () => runnerCommand(config, slot),
    modelPath: slot.path,
    maxOpenRequests: config['max-open-requests'],
    log: ({ level, ...event }) => log[level](event),
    onReady: (info) => {
      const model = slot.current;
      if (model === undefined) return;
      log.info({ event: 'ready', uri: url, ...memoryOf(info) });
      if (supervisor.status().restarts === 0) console.log(greeting(url, model));
      void callback.send(readyMessage(workerId, url, model.id, info));
    },
  });
  const metrics = new Metrics(() => supervisor.status(), Date.now);
  const limited = new TimeLimitedRunner(supervisor, config['inference-timeout-sec'] * 1000, Date.now);
  const app = createApp({
    model: () => slot.current,
    runner: new MeteredRunner(limited, metrics),
    log,
    metrics,
    now: Date.now,
    maxBodyBytes: config['max-body-bytes'],
  });

  const server = createAdaptorServer({ fetch: app.fetch }) as Server;
  const taken = await listen(server, config);
  if (taken instanceof Error) {
    const message = `Failed to bind to ${config.host}:${config.port}: ${taken.message}`;
    log.error({ event: 'error', msg: message });
    console.error(`runnel: ${message}`);
    return ExitCode.bindFailed;
  }
  port = taken;
  url = `http://${config.host.includes(':') ? `[${config.host}]` : config.host}:${port}`;
  console.log(`Runnel listens on ${url} and loads ${slot.path}`);
  log.info({ event: 'listening', url });
  supervisor.start();

  const end = await Promise.race([firstSignal(), callback.failed]);
  const isRefused = end instanceof CallbackError;
  if (isRefused) {
    log.error({ event: 'error', msg: end.message });
    console.error(`runnel: ${end.message}`);
  }
  log.info({
    event: 'shutdown',
    reason: isRefused ? 'callback' : end,
    open_requests: supervisor.status().openRequests,
  });
  await supervisor.stop(isRefused ? 0 : config['drain-timeout-sec'] * 1000);
  await close(server);
  log.info({ event: 'stopped' });
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
