import { Random } from '../../fixtures/random.ts';
import { until } from '../../fixtures/within.ts';
import type { Figures } from '../interleave.ts';
import { median, valueAt } from '../statistics.ts';
import { firstTokenAt } from './first-token.ts';
import { type Question, randomPrompt, type Server } from './server.ts';
import { ask } from './sse-client.ts';

/** Streams are running when a long prompt comes: what they feel of it, and how long it waits. */

export interface LongPrompt {
  readonly streams: number;
  readonly prompt: number;
  readonly seed: number;
}

/** Tokens of each stream before the prompt comes: those that do not count, and those that do. */
const WARMUP = 8;
const BEFORE = 64;
const STREAM_PROMPT = 16;
/** No stream is to end meanwhile. */
export const STREAM_TOKENS = 3000;
/** Of the prompt: its first token may be no whole character. */
const ANSWER_TOKENS = 4;
const MOST_MS = 300_000;

export async function longPrompt(server: Server, plan: LongPrompt, round: number): Promise<Figures> {
  await firstTokenAt(server);
  const random = new Random(plan.seed + round);
  const question = (length: number, generate: number): Question => {
    return { prompt: randomPrompt(random, length), generate, temperature: 0, topK: 0, seed: 1 };
  };
  const end = new AbortController();
  const streams = Array.from({ length: plan.streams }, (): number[] => []);
  let failure: unknown;
  const asked = streams.map((piecesMs) =>
    ask(
      server.url,
      server.completion(question(STREAM_PROMPT, STREAM_TOKENS)),
      (atMs) => piecesMs.push(atMs),
      end.signal,
    )
      .then(() => {
        throw new Error(`a stream had its ${STREAM_TOKENS} tokens before the prompt had its first`);
      })
      .catch((error: unknown) => {
        failure ??= error;
      }),
  );
  const each = (what: string, holds: (piecesMs: readonly number[]) => boolean): Promise<void> =>
    until(MOST_MS, what, () => {
      if (failure !== undefined) throw failure;
      return streams.every(holds);
    });
  try {
    await each('The streams’ first tokens', (piecesMs) => piecesMs.length > WARMUP + BEFORE);
    const sentMs = performance.now();
    let firstMs: number | undefined;
    await ask(server.url, server.completion(question(plan.prompt, ANSWER_TOKENS)), (atMs) => {
      firstMs ??= atMs;
    });
    const answeredMs = firstMs ?? performance.now();
    // One that stood still all that time has its gap still open.
    await each(
      'A token of each stream after the prompt’s',
      (piecesMs) => (piecesMs.at(-1) ?? 0) > answeredMs,
    );
    return figuresOfGaps(streams, sentMs, answeredMs);
  } finally {
    end.abort();
    await Promise.all(asked);
  }
}

/** Gaps that end before the prompt was sent, and later ones up to the first after its first token. */
export function figuresOfGaps(
  streams: readonly (readonly number[])[],
  sentMs: number,
  firstMs: number,
): Figures {
  const gaps = streams.flatMap((piecesMs) =>
    piecesMs.slice(WARMUP + 1).map((atMs, i) => ({ atMs, fromMs: piecesMs[WARMUP + i] as number })),
  );
  const lengths = (some: typeof gaps): number[] => some.map(({ fromMs, atMs }) => atMs - fromMs);
  const before = median(lengths(gaps.filter(({ atMs }) => atMs <= sentMs)));
  const after = lengths(gaps.filter(({ fromMs, atMs }) => atMs > sentMs && fromMs <= firstMs));
  const p99 = valueAt(after, 0.99);
  return {
    gapBefore: before,
    gapAfterP99: p99,
    gapGrowth: p99 / before,
    longPromptFirstToken: (firstMs - sentMs) / 1000,
  };
}
