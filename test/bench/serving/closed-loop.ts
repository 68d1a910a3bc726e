import { setTimeout } from 'node:timers/promises';
import { pollHealth } from '../../fixtures/health-poller.ts';
import { Random } from '../../fixtures/random.ts';
import type { Figures } from '../interleave.ts';
import { median, valueAt } from '../statistics.ts';
import { firstTokenAt } from './first-token.ts';
import { randomPrompt, type Server, type Task } from './server.ts';
import { ask } from './sse-client.ts';

/** Clients that ask again as soon as they have an answer. Measures their total throughput and the delays of each. */

export interface Load {
  readonly clients: number;
  /** Prompts have a random length between these two numbers of tokens. */
  readonly leastPrompt: number;
  readonly mostPrompt: number;
  readonly generate: number;
  readonly temperature: number;
  readonly topK: number;
  /** Time before the measured window, so that all clients are busy. seconds: length of the window. */
  readonly warmupSeconds: number;
  readonly seconds: number;
  /** Time after that window in which /health is requested. The processor time of these requests is not in the window's. */
  readonly healthSeconds: number;
  readonly seed: number;
}

/** What the clients saw. Times are as in performance.now(). */
export interface Seen {
  readonly fromMs: number;
  readonly toMs: number;
  /** For each client its answers in order. The last one may be incomplete. */
  readonly clients: readonly (readonly SeenAnswer[])[];
}

export interface SeenAnswer {
  readonly askedMs: number;
  readonly piecesMs: readonly number[];
  /** The number of tokens that the server reports. undefined for an incomplete answer. */
  readonly tokens: number | undefined;
}

export async function closedLoop(server: Server, load: Load, round: number): Promise<Figures> {
  await firstTokenAt(server);
  const seen: { askedMs: number; piecesMs: number[]; tokens: number | undefined }[][] = [];
  const random = new Random(load.seed + round);
  const end = new AbortController();
  const client = async (): Promise<void> => {
    const answers: (typeof seen)[number] = [];
    seen.push(answers);
    while (!end.signal.aborted) {
      const length = load.leastPrompt + random.below(load.mostPrompt - load.leastPrompt + 1);
      const seed = random.below(2 ** 31);
      const { generate, temperature, topK } = load;
      const question = { prompt: randomPrompt(random, length), generate, temperature, topK, seed };
      const piecesMs: number[] = [];
      const answer: (typeof answers)[number] = { askedMs: performance.now(), piecesMs, tokens: undefined };
      answers.push(answer);
      const onPiece = (atMs: number): void => {
        piecesMs.push(atMs);
      };
      answer.tokens = await ask(server.url, server.completion(question), onPiece, end.signal);
    }
  };
  const working = Promise.all(
    Array.from({ length: load.clients }, () =>
      client().catch((error: unknown) => {
        if (!end.signal.aborted) throw error;
      }),
    ),
  );
  const wait = (seconds: number): Promise<void> =>
    setTimeout(seconds * 1000, undefined, { signal: end.signal });
  const watch = async (): Promise<Figures> => {
    await wait(load.warmupSeconds);
    const [stepsBefore, cpuBefore, fromMs] = [await server.steps(), process.cpuUsage(), performance.now()];
    await wait(load.seconds);
    const [toMs, cpu, stepsAfter] = [performance.now(), process.cpuUsage(cpuBefore), await server.steps()];
    const { residentBytes, share } = await server.memory();
    const figures = figuresOf({ fromMs, toMs, clients: seen });
    const health = await healthUnderLoad(server, () => wait(load.healthSeconds));
    const numTokens = ((figures.served as number) * (toMs - fromMs)) / 1000;
    return {
      ...figures,
      ...health,
      ...sequencesPerStep(stepsBefore, stepsAfter),
      ...gatewayPerToken(stepsBefore, stepsAfter, numTokens),
      clientCpu: (cpu.user + cpu.system) / 10 / (toMs - fromMs),
      resident: residentBytes / 1e6,
      ...(share === undefined ? {} : { residentShare: share }),
    };
  };
  const watching = watch();
  try {
    // A client that fails ends the round at once.
    await Promise.race([watching, working]);
    return await watching;
  } finally {
    end.abort();
    await Promise.allSettled([watching, working]);
  }
}

async function healthUnderLoad(server: Server, passed: () => Promise<void>): Promise<Figures> {
  const endPolling = pollHealth(server.url);
  // A round that fails ends the polling too.
  await passed().catch(() => {});
  const { p50Ms, p95Ms, p99Ms } = await endPolling();
  return { healthP50: p50Ms, healthP95: p95Ms, healthP99: p99Ms };
}

function sequencesPerStep(before: Task | undefined, after: Task | undefined): Figures {
  if (before === undefined || after === undefined) return {};
  return { sequencesPerStep: (after.sequences - before.sequences) / (after.steps - before.steps) };
}

function gatewayPerToken(before: Task | undefined, after: Task | undefined, numTokens: number): Figures {
  if (before?.gatewayMs === undefined || after?.gatewayMs === undefined) return {};
  return { gatewayPerToken: ((after.gatewayMs - before.gatewayMs) * 1000) / numTokens };
}

/** Figures for the window alone. */
export function figuresOf({ fromMs, toMs, clients }: Seen): Figures {
  const isWithin = (atMs: number): boolean => atMs >= fromMs && atMs <= toMs;
  const answers = clients.flat();
  const whole = answers.filter(({ tokens }) => tokens !== undefined);
  const sum = (values: readonly number[]): number => values.reduce((all, value) => all + value, 0);
  // A piece can have several tokens, and a token may not have a piece of its own.
  const tokensPerPiece =
    sum(whole.map(({ tokens = 0 }) => tokens)) / sum(whole.map(({ piecesMs }) => piecesMs.length));
  if (!(tokensPerPiece > 0))
    throw new Error(
      'no answer was whole when the time was over: more --seconds are needed, or fewer --clients',
    );
  const pieces = answers.flatMap(({ piecesMs }) => piecesMs).filter(isWithin).length;
  const gaps = answers.flatMap(({ piecesMs }) =>
    piecesMs.flatMap((atMs, i) => (i > 0 && isWithin(atMs) ? [atMs - (piecesMs[i - 1] as number)] : [])),
  );
  const waits = answers.flatMap(({ askedMs, piecesMs: [first] }) =>
    first !== undefined && isWithin(first) ? [first - askedMs] : [],
  );
  return {
    served: (pieces * tokensPerPiece * 1000) / (toMs - fromMs),
    firstTokenP50: median(waits),
    firstTokenP95: valueAt(waits, 0.95),
    firstTokenP99: valueAt(waits, 0.99),
    gapP50: median(gaps),
    gapP95: valueAt(gaps, 0.95),
    gapP99: valueAt(gaps, 0.99),
    gapMax: valueAt(gaps, 1),
    starved: clients.filter((of) => !of.some(({ piecesMs }) => piecesMs.some(isWithin))).length,
  };
}
