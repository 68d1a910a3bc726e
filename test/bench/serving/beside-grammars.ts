import { setTimeout as pass } from 'node:timers/promises';
import { Random } from '../../fixtures/random.ts';
import type { Figures } from '../interleave.ts';
import { firstTokenAt } from './first-token.ts';
import { randomPrompt, type Server } from './server.ts';
import { ask, never, Refusal } from './sse-client.ts';

/** Counts the tokens of a stream alone, and beside streams whose grammars take long to follow. */

export interface BesideGrammars {
  readonly seconds: number;
  readonly seed: number;
}

const SLOW_STREAMS = 8;
const PROMPT = 16;
const TOKENS = 2000;
/** Before the count of each part. */
const WARMUP_MS = 2000;

export async function besideGrammars(server: Server, plan: BesideGrammars, round: number): Promise<Figures> {
  await firstTokenAt(server);
  const random = new Random(plan.seed + round);
  const end = new AbortController();
  const piecesMs: number[] = [];
  let numAsked = round * 100;
  const plain = (): object =>
    server.completion({
      prompt: randomPrompt(random, PROMPT),
      generate: TOKENS,
      temperature: 0.8,
      topK: 40,
      seed: 1,
    });
  const slow = (): object => ({ ...plain(), min_tokens: 0, guided_regex: slowRegex(numAsked++) });
  const plainStream = (): Promise<unknown> =>
    ask(server.url, plain(), (atMs) => piecesMs.push(atMs), end.signal);
  const slowStream = (): Promise<unknown> =>
    ask(server.url, slow(), () => {}, end.signal).catch(ignoreRefusal);
  const rate = async (): Promise<number> => {
    await pass(WARMUP_MS);
    const fromMs = performance.now();
    await pass(plan.seconds * 1000);
    const toMs = performance.now();
    const count = piecesMs.filter((atMs) => atMs > fromMs && atMs <= toMs).length;
    return (1000 * count) / (toMs - fromMs);
  };
  const clients: Promise<void>[] = [];
  const measured = (async (): Promise<Figures> => {
    clients.push(repeat(plainStream, end.signal));
    const plainAlone = await Promise.race([rate(), ...clients.map(never)]);
    for (let i = 0; i < SLOW_STREAMS; ++i) clients.push(repeat(slowStream, end.signal));
    const plainBeside = await Promise.race([rate(), ...clients.map(never)]);
    return { plainAlone, plainBeside, plainShare: (100 * plainBeside) / plainAlone };
  })();
  try {
    return await measured;
  } finally {
    end.abort();
    await Promise.allSettled(clients);
  }
}

/** Each request has another source, since a runner refuses a source whose masks have taken too long. */
export function slowRegex(number: number): string {
  return `(.?){${90 + (number % 40)}}.{${80 + Math.floor(number / 40)}}`;
}

async function repeat(asking: () => Promise<unknown>, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) await asking();
}

/** A grammar may be refused, or end its stream, at one of its bounds. */
function ignoreRefusal(error: unknown): void {
  if (error instanceof Refusal || (error instanceof Error && error.message.includes('grammar'))) return;
  throw error;
}
