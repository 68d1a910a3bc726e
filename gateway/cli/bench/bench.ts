import { randomInt } from 'node:crypto';

import { firstModel, Server } from '../../client/server.ts';
import { type BenchConfig, benchSettings, serverOptions } from '../../config/client-settings.ts';
import { ExitCode, UsageError } from '../../errors/exit-code.ts';
import { command, jsonFlag } from '../command.ts';
import { type Level, levelOf } from './level.ts';
import { type Ask, arrivalsMs, byArrivals, byConcurrency, measure, promptOf, uniform } from './load.ts';
import { reportOf } from './table.ts';

/** `runnel bench`: measures any server with OpenAI's API from outside. */
export const bench = command({
  forms: ['bench [--url URL] [options]'],
  about:
    'Measures a server with /v1/chat/completions by streamed requests: the time to the first text of an answer, between its texts, and to its end, tokens per second, and good answers per second (those within the --slo limits). One request is sent first and not counted. Prints a table, and curves if several loads are measured.',
  settings: {
    json: jsonFlag('Print JSON instead: {"url", "model", "seed", "levels"}, also with means and maxima'),
    ...benchSettings,
  },
  examples: [
    'runnel bench --concurrency 1,8,32 --requests 128',
    'runnel bench --rate 0.5,1,2 --slo-ttft-ms 500 --slo-itl-ms 80',
    'runnel bench --url http://10.0.0.7:8000 --model llama --json > levels.json',
  ],
  run: async ({ config, sourceOf }) => {
    const given = sourceOf('concurrency');
    if (config.rate.length > 0 && given !== undefined)
      throw new UsageError(
        `${given} and ${sourceOf('rate')} cannot be used together: leave one of them out.`,
      );
    const most = Math.max(...config.concurrency);
    if (config.rate.length === 0 && config.requests < most)
      throw new UsageError(
        `--requests must be at least ${most}, the most clients of --concurrency, got ${config.requests}.`,
      );
    const server = new Server(serverOptions(config, process.env));
    try {
      const model = config.model ?? (await firstModel(server));
      const seed = config.seed ?? randomInt(2 ** 32);
      if (!config.json) process.stdout.write(`${model} at ${server.url}, seed ${seed}\n`);
      const levels = await measureAll(server, model, seed, config);
      const report = { url: server.url, model, seed, levels };
      process.stdout.write(`${config.json ? JSON.stringify(report) : reportOf(levels)}\n`);
      const isUseless = levels.some(({ requests, failed }) => failed === requests);
      return isUseless ? ExitCode.unavailable : ExitCode.ok;
    } finally {
      server.close();
    }
  },
});

async function measureAll(
  server: Server,
  model: string,
  seed: number,
  config: BenchConfig,
): Promise<Level[]> {
  const random = uniform(seed);
  const now = (): number => performance.now();
  const ask: Ask = () => {
    const content = promptOf(config['prompt-tokens'], random);
    const { temperature } = config;
    const messages = [{ role: 'user', content }];
    return measure(server, { model, messages, temperature, max_tokens: config['max-tokens'] }, now);
  };
  const { failure } = await ask(0);
  if (failure !== undefined) throw failure;
  const { requests, rate } = config;
  const limits = { ttftMs: config['slo-ttft-ms'], itlMs: config['slo-itl-ms'] };
  const levels: Level[] = [];
  const loads: readonly Level['load'][] =
    rate.length > 0
      ? rate.map((each) => ({ rate: each }))
      : config.concurrency.map((each) => ({ concurrency: each }));
  for (const load of loads) {
    const counted = showing(ask, JSON.stringify(load).replaceAll(/[{}"]/g, ''), requests);
    const samples =
      'rate' in load
        ? await byArrivals(counted, arrivalsMs(requests, load.rate, random), now)
        : await byConcurrency(counted, requests, load.concurrency);
    levels.push(levelOf(load, samples, limits));
  }
  return levels;
}

/** Shows on a terminal how many requests have been answered. */
function showing(ask: Ask, what: string, requests: number): Ask {
  if (process.stderr.isTTY !== true) return ask;
  let numDone = 0;
  return async (index) => {
    const sample = await ask(index);
    numDone++;
    process.stderr.write(`\r${what}: ${numDone} of ${requests}${numDone === requests ? '\r\x1b[K' : ''}`);
    return sample;
  };
}
