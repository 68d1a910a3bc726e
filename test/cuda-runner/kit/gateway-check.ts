import { execFile } from 'node:child_process';
import { basename } from 'node:path';
import { promisify } from 'node:util';
import type { AnswerDigest } from '../../fixtures/answer-digest.ts';
import { areReady, Gateway } from '../../fixtures/gateway.ts';
import { killedAnswer } from '../../fixtures/killed-answer.ts';
import { killAll, runAll } from '../../fixtures/killed-streams.ts';
import { variedRequests } from '../../fixtures/varied-requests.ts';

/**
 *     node gateway-check.js MODEL TOKENS KILLS
 *
 * Serves the model with cpu-runner, then with one cuda-runner and with two, which are killed this many times. Fails if an answer
 * differs in a byte. Prints what a kill costs, and a second runner, as one line of JSON.
 */

/** Enough for the requests. */
const CONTEXT_TOKENS = 512;
/** Tokens of the answer that has come when its runner is killed. */
const KILL_AT = 10;

const [model = '', tokens = '', kills = ''] = process.argv.slice(2);
const [numTokens, numKills] = [Number(tokens), Number(kills)];
const program = [process.execPath, 'gateway/runnel.js'];
const requests = variedRequests(basename(model, '.gguf'), numTokens);

async function start(backend: 'cpu' | 'cuda', ...more: string[]): Promise<Gateway> {
  const args = ['--port', '0', '--backend', backend, '--journal-dir', 'off'];
  const context = ['--max-model-len', `${CONTEXT_TOKENS}`];
  const gateway = await (await Gateway.startOn(model, [...args, ...context, ...more], { program })).ready();
  await gateway.healthWhere(areReady, 'All runners to be ready');
  return gateway;
}

/** Runs something with a gateway, which is then stopped. */
async function during<T>(gateway: Gateway, run: (gateway: Gateway) => Promise<T>): Promise<T> {
  try {
    return await run(gateway);
  } finally {
    await gateway.stop();
  }
}

const length = { max_tokens: numTokens, min_tokens: numTokens };
const alone = { prompt: 'Once upon a time', seed: 1, temperature: 0, ...length };
let numJobs = 0;

async function answerAlone(gateway: Gateway, killAt?: number) {
  numJobs += 1;
  return killedAnswer(gateway, { job_id: `alone ${numJobs}`, ...alone }, killAt);
}

interface Expected {
  readonly all: readonly AnswerDigest[];
  readonly numBytes: number;
  readonly alone: string;
}

async function expected(gateway: Gateway): Promise<Expected> {
  let numBytes = 0;
  const all = await runAll(gateway, requests, -1, (count) => {
    numBytes += count;
  });
  return { all, numBytes, alone: (await answerAlone(gateway)).text };
}

/** The speed of all requests together, what a kill costs one stream, and the memory of the device. */
async function costs(gateway: Gateway, onCpu: Expected): Promise<object> {
  const begin = performance.now();
  const answers = await runAll(gateway, requests, -2, () => {});
  const seconds = (performance.now() - begin) / 1000;
  for (const [stream, { digest }] of answers.entries())
    if (digest !== onCpu.all[stream]?.digest) throw new Error(`${requests[stream]?.name} differs.`);
  const pausesMs: (number | null)[] = [];
  for (let kill = 0; kill < numKills; kill += 1) {
    await gateway.healthWhere(areReady, 'All runners to be ready');
    const { text, pauseMs } = await answerAlone(gateway, KILL_AT);
    if (text !== onCpu.alone) throw new Error('The answer of one stream differs after a kill.');
    pausesMs.push(pauseMs === undefined ? null : Math.round(pauseMs));
  }
  await gateway.healthWhere(areReady, 'All runners to be ready');
  return {
    seconds_of_all_streams: Number(seconds.toFixed(3)),
    pause_ms_of_one_stream: pausesMs,
    device_memory_used: await usedMemory(),
  };
}

/** As nvidia-smi says it: "12345 MiB". */
async function usedMemory(): Promise<string | null> {
  try {
    const query = ['--query-gpu=memory.used', '--format=csv,noheader'];
    return (await promisify(execFile)('nvidia-smi', query)).stdout.trim();
  } catch {
    return null;
  }
}

const onCpu = await during(await start('cpu'), expected);
const one = await during(await start('cuda'), async (gateway) => {
  const { interrupted, pausesMs } = await killAll(gateway, requests, onCpu.all, onCpu.numBytes, numKills);
  return {
    kills: interrupted.length,
    open_at_kills: interrupted,
    longest_pause_ms_of_rounds: pausesMs,
    one_runner: await costs(gateway, onCpu),
  };
});
const two = await during(await start('cuda', '--runners', '2'), (gateway) => costs(gateway, onCpu));
console.log(
  JSON.stringify({
    streams: requests.length,
    tokens_each: numTokens,
    ...one,
    two_runners: two,
    equal_to_cpu: true,
  }),
);
