import { type ChildProcessByStdio, type StdioOptions, spawn } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import type { Readable, Writable } from 'node:stream';
import type { Ready } from '../../../gateway/runner/protocol/from-runner.ts';
import { generateByFrames } from '../../fixtures/frames-client.ts';
import type { Runner } from '../engines/runnel.ts';
import type { Figures, Subject } from '../interleave.ts';
import type { MetricId } from '../metrics.ts';
import type { Server } from './server.ts';
import { ask, Refusal } from './sse-client.ts';

/** Measures the time from the start of a process to the first token that it computes. */

/** The number of the first descriptor that is passed. */
const FIRST_PASSED = 3;
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

/** The metrics of a runner that packs its weights for others, and of one that is given them. */
interface RunnerStarts {
  readonly packing: MetricId;
  readonly given: MetricId;
}

/**
 * A runner alone, as a running gateway starts its first one, and the one after it. The file is in the page cache, because
 * earlier runs have read it.
 */
export function startingRunner(runner: Runner, { packing, given }: RunnerStarts): Subject {
  const measure = async (): Promise<Figures> => {
    let weights: number | undefined;
    const packingMs = await runnerStart(runner, ['--share-weights'], [], (pid, { weightsDescriptor }) => {
      if (weightsDescriptor !== undefined) weights = openSync(`/proc/${pid}/fd/${weightsDescriptor}`, 'r');
    });
    if (weights === undefined) throw new Error('the runner could not share its weights');
    try {
      return {
        [packing]: packingMs,
        [given]: await runnerStart(runner, ['--weights-fd', String(FIRST_PASSED)], [weights]),
      };
    } finally {
      closeSync(weights);
    }
  };
  return { engine: runner.name, settings: [''], measure };
}

/** Milliseconds from exec to the first token. */
async function runnerStart(
  { file, model, threads, flags }: Runner,
  more: readonly string[],
  descriptors: readonly number[],
  onReady?: (pid: number | undefined, ready: Ready) => void,
): Promise<number> {
  const args = ['serve', '--model', model, '--threads', String(threads), ...flags, ...more];
  const startedMs = performance.now();
  const stdio: StdioOptions = ['pipe', 'pipe', 'inherit', ...descriptors];
  // With these first three, the streams are those.
  const runner = spawn(file, args, { stdio }) as ChildProcessByStdio<Writable, Readable, null>;
  const request = { tokenIds: QUESTION.prompt, maxTokens: 1, topLogprobs: 0 };
  await generateByFrames(runner, request, (ready) => onReady?.(runner.pid, ready));
  return performance.now() - startedMs;
}

function isNotYetReady(error: unknown): boolean {
  if (error instanceof Refusal) return error.status === 503;
  const { code } = error as NodeJS.ErrnoException;
  return code === 'ECONNREFUSED' || code === 'ECONNRESET';
}
