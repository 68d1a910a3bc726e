import { setTimeout as pass } from 'node:timers/promises';
import { areReady, busiestPid, type Health } from '../../fixtures/gateway.ts';
import { Random } from '../../fixtures/random.ts';
import type { Figures } from '../interleave.ts';
import { median } from '../statistics.ts';
import { firstTokenAt } from './first-token.ts';
import { randomPrompt, type Server } from './server.ts';
import { ask } from './sse-client.ts';

/** Measures the pause of a stream whose runner is killed. */

/** Tokens before the killed stream's own. */
const SHORT = 4;
const LONG = 4000;
/** A supervisor starts the runners after a few kills at once, and those after more of them later. */
const KILLS = 2;
/** Pieces of the answer before the kill, and tokens of the answer. */
const KILL_AT = 8;
const GENERATE = 64;
const READY_MS = 60_000;
const POLL_MS = 20;

export async function pauses(server: Server, seed: number): Promise<Figures> {
  const random = new Random(seed);
  await firstTokenAt(server);
  return {
    pause: await pauseAfter(server, random, SHORT),
    longPause: await pauseAfter(server, random, LONG),
  };
}

/** The prompt is the same each time, so that it is computed once. */
async function pauseAfter(server: Server, random: Random, tokens: number): Promise<number> {
  const prompt = randomPrompt(random, tokens);
  const pauses: number[] = [];
  for (let kill = 0; kill < KILLS; kill++) pauses.push(await pauseOf(server, prompt));
  return median(pauses);
}

/** The longest time between two pieces from the kill on: those that were on their way come without a pause. */
async function pauseOf(server: Server, prompt: readonly number[]): Promise<number> {
  await readiness(server);
  let killed: Promise<void> | undefined;
  const kill = async (): Promise<void> => void process.kill(busiestPid(await healthOf(server)), 'SIGKILL');
  let numPieces = 0;
  let lastMs = 0;
  let longestMs = 0;
  await ask(
    server.url,
    server.completion({ prompt, generate: GENERATE, temperature: 0, topK: 0, seed: 1 }),
    (atMs) => {
      if (numPieces >= KILL_AT) longestMs = Math.max(longestMs, atMs - lastMs);
      lastMs = atMs;
      if (++numPieces === KILL_AT) killed = kill();
    },
  );
  await killed;
  if (numPieces <= KILL_AT)
    throw new Error(`the answer came in ${numPieces} pieces, too few to kill its runner`);
  return longestMs;
}

async function healthOf({ url }: Server): Promise<Health> {
  return (await (await fetch(`${url}/health`)).json()) as Health;
}

async function readiness(server: Server): Promise<void> {
  const endMs = performance.now() + READY_MS;
  while (!areReady(await healthOf(server))) {
    if (performance.now() > endMs) throw new Error(`no runner was ready again within ${READY_MS} ms`);
    await pass(POLL_MS);
  }
}
