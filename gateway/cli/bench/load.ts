import { setTimeout as elapsed } from 'node:timers/promises';
import { streamAnswer } from '../../client/answer-stream.ts';
import { RefusedError, type Server } from '../../client/server.ts';
import { UnavailableError } from '../../errors/thrown.ts';

/** The ways in which requests follow each other. Each returns the samples in the order of the requests. */

/** Sends one request. index: the request's number, from 0. */
export type Ask = (index: number) => Promise<Sample>;

/** Closed loop: `concurrency` clients, each of which sends its next request when it has its answer. */
export async function byConcurrency(ask: Ask, count: number, concurrency: number): Promise<Sample[]> {
  const samples: Sample[] = [];
  let next = 0;
  const client = async (): Promise<void> => {
    for (let index = next++; index < count; index = next++) samples[index] = await ask(index);
  };
  await Promise.all(Array.from({ length: concurrency }, client));
  return samples;
}

/**
 * Open loop: requests arrive at given times, however many are open, so that waiting shows in the measurements. arrivalsMs:
 * ascending, from now.
 */
export async function byArrivals(
  ask: Ask,
  arrivalsMs: readonly number[],
  now: () => number,
): Promise<Sample[]> {
  const beganMs = now();
  const open: Promise<Sample>[] = [];
  for (const [index, arrivalMs] of arrivalsMs.entries()) {
    const waitMs = beganMs + arrivalMs - now();
    if (waitMs > 0) await elapsed(waitMs);
    const sample = ask(index);
    // The sample is awaited after all requests have been sent.
    sample.catch(() => {});
    open.push(sample);
  }
  return Promise.all(open);
}

/** Returns a generator of numbers from 0 to below 1 that is determined by a 32-bit seed: mulberry32 by Tommy Ettinger. */
export function uniform(seed: number): () => number {
  let state = seed | 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/**
 * The arrival times of requests in milliseconds after the start, ascending. They are a Poisson process, so the gaps are
 * exponentially distributed. rate: requests per second.
 */
export function arrivalsMs(count: number, rate: number, random: () => number): number[] {
  let atMs = 0;
  return Array.from({ length: count }, () => {
    atMs += (-Math.log(1 - random()) / rate) * 1000;
    return atMs;
  });
}

const WORDS =
  'the sea light ship rock wind night lamp tower coast storm bell wave fog sand crew sail rope deck port star moon rain cloud'.split(
    ' ',
  );

/**
 * A prompt of random words, about one token each. Prompts differ from their beginning on, so a server cannot have computed one
 * before.
 */
export function promptOf(numWords: number, random: () => number): string {
  return Array.from({ length: numWords }, () => WORDS[Math.floor(random() * WORDS.length)]).join(' ');
}

/** The measurements of one request. Times are milliseconds of one clock. */
export interface Sample {
  readonly startedMs: number;
  readonly endedMs: number;
  /** The arrival times of the events with text or thinking. A server may put several tokens into one event. */
  readonly arrivedMs: readonly number[];
  /** The server's count of tokens, or the number of events if the server does not tell. */
  readonly numTokens: number;
  readonly numPromptTokens: number | undefined;
  /** Why the answer is not complete. */
  readonly failure: UnavailableError | RefusedError | undefined;
}

/** Sends a request and reads its answer to the end. now: a clock in milliseconds. */
export async function measure(server: Server, body: object, now: () => number): Promise<Sample> {
  const startedMs = now();
  const arrivedMs: number[] = [];
  let numTokens: number | undefined;
  let numPromptTokens: number | undefined;
  let failure: Sample['failure'];
  try {
    const { signal } = new AbortController();
    for await (const { text, thought, usage } of streamAnswer(server, '/v1/chat/completions', body, signal)) {
      if (text !== '' || thought !== '') arrivedMs.push(now());
      numTokens = usage?.completion_tokens ?? numTokens;
      numPromptTokens = usage?.prompt_tokens ?? numPromptTokens;
    }
  } catch (error) {
    if (!(error instanceof UnavailableError) && !(error instanceof RefusedError)) throw error;
    failure = error;
  }
  return {
    startedMs,
    endedMs: now(),
    arrivedMs,
    numTokens: numTokens ?? arrivedMs.length,
    numPromptTokens,
    failure,
  };
}
