import { setTimeout as pass } from 'node:timers/promises';
import type { Health } from '../../fixtures/gateway.ts';
import { Random } from '../../fixtures/random.ts';
import type { Figures } from '../interleave.ts';
import { median } from '../statistics.ts';
import { firstTokenAt } from './first-token.ts';
import { randomPrompt, type Server } from './server.ts';
import { ask } from './sse-client.ts';

/** Measures the pause of a stream whose only runner is killed. */

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
  const pid = await readyRunner(server);
  let numPieces = 0;
  let lastMs = 0;
  let longestMs = 0;
  await ask(
    server.url,
    server.completion({ prompt, generate: GENERATE, temperature: 0, topK: 0, seed: 1 }),
    (atMs) => {
      if (numPieces >= KILL_AT) longestMs = Math.max(longestMs, atMs - lastMs);
      lastMs = atMs;
      if (++numPieces === KILL_AT) process.kill(pid, 'SIGKILL');
    },
  );
  if (numPieces <= KILL_AT)
    throw new Error(`the answer came in ${numPieces} pieces, too few to kill its runner`);
  return longestMs;
}

/** Its process id. */
async function readyRunner(server: Server): Promise<number> {
  const endMs = performance.now() + READY_MS;
  while (performance.now() < endMs) {
    const { status, runner } = (await (await fetch(`${server.url}/health`)).json()) as Health;
    if (status === 'healthy' && runner.pid !== null) return runner.pid;
    await pass(POLL_MS);
  }
  throw new Error(`no runner was ready again within ${READY_MS} ms`);
}
