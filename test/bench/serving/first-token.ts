import { spawn } from 'node:child_process';
import { generateByFrames } from '../../fixtures/frames-client.ts';
import type { Runner } from '../engines/runnel.ts';
import type { Figures, Subject } from '../interleave.ts';
import type { Server } from './server.ts';
import { ask, Refusal } from './sse-client.ts';

/** Measures the time from the start of a process to the first token that it computes. */

const START_MS = 120_000;
const AGAIN_MS = 5;
const QUESTION = { prompt: [400, 500, 600], generate: 2, temperature: 0, topK: 0, seed: 1 };

/** Asks until there is an answer, and returns when its first token came. */
export async function firstTokenAt(server: Server, key?: string): Promise<number> {
  const body = server.completion(QUESTION);
  while (true) {
    let firstMs: number | undefined;
    try {
      const onPiece = (atMs: number): void => {
        firstMs ??= atMs;
      };
      await ask(server.url, body, onPiece, undefined, key);
    } catch (error) {
      if (server.failure !== undefined) throw new Error(server.failure);
      if (!isNotYetReady(error) || performance.now() > server.startedMs + START_MS) throw error;
      await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
      continue;
    }
    if (firstMs === undefined) throw new Error('an answer had no token');
    return firstMs;
  }
}

export async function serverStart(server: Server): Promise<Figures> {
  return { serverStart: (await firstTokenAt(server)) - server.startedMs };
}

/** The runner alone, as a running gateway starts it. The file is in the page cache, because earlier runs have read it. */
export function startingRunner({ name, file, model, threads, flags }: Runner): Subject {
  const args = ['serve', '--model', model, '--threads', String(threads), ...flags];
  const measure = async (): Promise<Figures> => {
    const startedMs = performance.now();
    const runner = spawn(file, args, { stdio: ['pipe', 'pipe', 'inherit'] });
    await generateByFrames(runner, { tokenIds: QUESTION.prompt, maxTokens: 1, topLogprobs: 0 });
    return { runnerStart: performance.now() - startedMs };
  };
  return { engine: name, settings: [''], measure };
}

function isNotYetReady(error: unknown): boolean {
  if (error instanceof Refusal) return error.status === 503;
  const { code } = error as NodeJS.ErrnoException;
  return code === 'ECONNREFUSED' || code === 'ECONNRESET';
}
