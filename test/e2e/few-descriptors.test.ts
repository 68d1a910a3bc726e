/** The gateway with a low limit of file descriptors. */
import { execFileSync } from 'node:child_process';
import { connect, type Socket } from 'node:net';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { isBundleCurrent } from '../../gateway/bundle.js';
import { maxFruitlessStarts } from '../../gateway/runner/supervision/restarts.ts';
import { writeFakeModel } from '../fixtures/fake-model-file.ts';
import { Gateway } from '../fixtures/gateway.ts';
import { readNativeAnswer } from '../fixtures/native-stream.ts';
import { script } from '../fixtures/stand-in-runners.ts';
import { type Directory, fakeCommand, patienceMs, temporaryDirectory } from '../fixtures/supervised.ts';
import { until, within } from '../fixtures/within.ts';

const LIMIT = 64;
const IDLE_CONNECTIONS = 60;
/** Fewer than a gateway has open when it listens, so that it can open no other. */
const NONE_FREE = 10;
const TOKENS = 400;

async function limited(directory: Directory): Promise<Gateway> {
  const model = writeFakeModel(directory, 'model');
  const { file, args } = fakeCommand('--model', `${model}.identity`, '--delay-ms', '5');
  const line = `exec '${file}' ${args.map((arg) => `'${arg}'`).join(' ')}`;
  const runner = script(directory, 'runner', [line]);
  // From its sources it would read so many files at once that descriptors may run out.
  if (!isBundleCurrent()) execFileSync('node', ['--import', 'tsx', 'deploy/bundle-gateway.ts']);
  const launcher = ['prlimit', `--nofile=${LIMIT}`];
  return Gateway.startOn(model, ['--port', '0', '--backend', 'cpu', '--runner', runner], { launcher });
}

/** Opens connections and returns those that the gateway has not closed. */
async function idleConnections(url: string, count: number): Promise<Socket[]> {
  const { hostname, port } = new URL(url);
  const sockets = Array.from({ length: count }, () => connect(Number(port), hostname));
  for (const socket of sockets) socket.on('error', () => {});
  await until(patienceMs, 'every connection to be taken or closed', () =>
    sockets.every((socket) => socket.destroyed || !socket.connecting),
  );
  return sockets;
}

const test = suite('few descriptors');

test(`${LIMIT} descriptors and ${IDLE_CONNECTIONS} idle connections: a runner that is killed comes back, and the stream goes on`, async () => {
  const directory = temporaryDirectory();
  const gateway = await limited(directory);
  const sockets: Socket[] = [];
  try {
    await gateway.ready();
    const { pid } = (await gateway.health()).runner;
    const body = { job_id: 'a', prompt: 'Once', max_tokens: TOKENS, seed: 7 };
    const response = await gateway.post('/execute', body);
    let numTokens = 0;
    let isKilled = false;
    const answer = readNativeAnswer(response, async () => {
      numTokens += 1;
      if (numTokens < 10 || isKilled) return;
      isKilled = true;
      sockets.push(...(await idleConnections(gateway.url, IDLE_CONNECTIONS)));
      process.kill(pid ?? 0, 'SIGKILL');
    });
    const { last } = await within(patienceMs, 'the end of the stream', answer);
    assert.equal([last.event, (last.data as { tokens_out?: number }).tokens_out], ['end', TOKENS]);
    for (const socket of sockets.splice(0)) socket.destroy();
    const health = await gateway.healthWhere(({ runner }) => runner.state === 'ready', 'a runner');
    assert.equal([health.runner.restarts, health.runner.pid !== pid], [1, true]);
    await gateway.logged(/"event":"connections_limited","max_connections":\d+/);
  } finally {
    for (const socket of sockets) socket.destroy();
    assert.is((await gateway.stop()).code, 0, gateway.log);
  }
});

test('without any descriptor for a while: starts are tried as descriptors come back, and the stream goes on', async () => {
  const directory = temporaryDirectory();
  const gateway = await limited(directory);
  const limitTo = (soft: number) =>
    execFileSync('prlimit', [`--pid=${gateway.process.pid}`, `--nofile=${soft}:${LIMIT}`]);
  const numTries = () => gateway.log.split('"event":"runner_restarting"').length;
  try {
    await gateway.ready();
    const { pid } = (await gateway.health()).runner;
    const body = { job_id: 'a', prompt: 'Once', max_tokens: TOKENS, seed: 7 };
    const response = await gateway.post('/execute', body);
    let numTokens = 0;
    const answer = readNativeAnswer(response, () => {
      numTokens += 1;
      if (numTokens !== 10) return;
      limitTo(NONE_FREE);
      process.kill(pid ?? 0, 'SIGKILL');
    });
    await until(patienceMs, 'the first failures', () => numTries() > maxFruitlessStarts);
    let isEnded = false;
    void answer.finally(() => (isEnded = true)).catch(() => {});
    for (let limit = NONE_FREE; limit < LIMIT && !isEnded; limit += 12) {
      limitTo(limit);
      const before = numTries();
      await until(patienceMs, 'another try, or the end', () => isEnded || numTries() > before);
    }
    limitTo(LIMIT);
    const { last } = await within(patienceMs, 'the end of the stream', answer);
    assert.equal([last.event, (last.data as { tokens_out?: number }).tokens_out], ['end', TOKENS]);
    const { runner } = await gateway.healthWhere(({ runner }) => runner.state === 'ready', 'a runner');
    assert.equal([runner.restarts, runner.pid !== pid], [1, true]);
  } finally {
    limitTo(LIMIT);
    assert.is((await gateway.stop()).code, 0, gateway.log);
  }
});

test.run();
