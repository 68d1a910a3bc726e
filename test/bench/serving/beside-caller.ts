import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pass } from 'node:timers/promises';
import { Random } from '../../fixtures/random.ts';
import type { Runner } from '../engines/runnel.ts';
import type { Figures, Subject } from '../interleave.ts';
import { valueAt } from '../statistics.ts';
import { firstTokenAt } from './first-token.ts';
import { randomPrompt, type Server } from './server.ts';
import { ask, never, Refusal } from './sse-client.ts';
import { servingRunnel } from './subjects.ts';

/** Measures how long a caller waits for its first token, alone and beside another caller that fills the server. */

export interface BesideCaller {
  readonly seconds: number;
  readonly seed: number;
}

/** Keys of the two callers. */
const MODEST = 'modest-caller-0001';
const GREEDY = 'greedy-caller-0001';

const GREEDY_REQUESTS = 32;
const GREEDY_ANSWERS = 8;
const GREEDY_TOKENS = 128;
const MODEST_TOKENS = 2;
const PROMPT = 16;
/** Before the measurement of each part. */
const WARMUP_MS = 2000;
/** Before a refused request is sent again. */
const AGAIN_MS = 100;

export function besideCaller(runner: Runner, plan: BesideCaller): Subject {
  const measure = async (setting: string, round: number): Promise<Figures> => {
    const folder = mkdtempSync(join(tmpdir(), 'runnel-bench-'));
    const file = join(folder, 'keys');
    writeFileSync(file, `${MODEST} name=modest\n${GREEDY} name=greedy\n`, { mode: 0o600 });
    try {
      const flags = [...runner.flags, '--api-keys-file', file];
      const work = (server: Server): Promise<Figures> => measureCallers(server, plan, round);
      return await servingRunnel({ ...runner, flags }, work).measure(setting, round);
    } finally {
      rmSync(folder, { recursive: true });
    }
  };
  return { engine: runner.name, settings: [''], measure };
}

async function measureCallers(server: Server, plan: BesideCaller, round: number): Promise<Figures> {
  await firstTokenAt(server, MODEST);
  const random = new Random(plan.seed + round);
  const end = new AbortController();
  const body = (generate: number): object => {
    const prompt = randomPrompt(random, PROMPT);
    return server.completion({ prompt, generate, temperature: 0.8, topK: 40, seed: 1 });
  };
  /** The waits of requests that follow each other for as long as a part lasts. */
  const waitsMs = async (): Promise<number[]> => {
    await pass(WARMUP_MS);
    const waits: number[] = [];
    const untilMs = performance.now() + plan.seconds * 1000;
    while (performance.now() < untilMs) {
      const askedMs = performance.now();
      let firstMs: number | undefined;
      const onPiece = (atMs: number): void => {
        firstMs ??= atMs;
      };
      await ask(server.url, body(MODEST_TOKENS), onPiece, end.signal, MODEST);
      if (firstMs === undefined) throw new Error('an answer had no token');
      waits.push(firstMs - askedMs);
    }
    return waits;
  };
  const greedy = async (): Promise<void> => {
    while (!end.signal.aborted) {
      const asked = { ...body(GREEDY_TOKENS), n: GREEDY_ANSWERS };
      await ask(server.url, asked, () => {}, end.signal, GREEDY).catch(async (error: unknown) => {
        if (end.signal.aborted) return;
        if (!(error instanceof Refusal)) throw error;
        await pass(AGAIN_MS);
      });
    }
  };
  const alone = await waitsMs();
  const clients = Array.from({ length: GREEDY_REQUESTS }, greedy);
  try {
    const beside = await Promise.race([waitsMs(), ...clients.map(never)]);
    const [aloneP99, besideP99] = [valueAt(alone, 0.99), valueAt(beside, 0.99)];
    return {
      callerAloneP50: valueAt(alone, 0.5),
      callerAlone: aloneP99,
      callerBesideP50: valueAt(beside, 0.5),
      callerBeside: besideP99,
      callerGrowth: besideP99 / aloneP99,
    };
  } finally {
    end.abort();
    await Promise.allSettled(clients);
  }
}
