import type { Random } from '../../fixtures/random.ts';

/** A server that is started for a measurement and stopped after it. */

export interface Server {
  readonly url: string;
  /** When the process was started, as in performance.now(). */
  readonly startedMs: number;
  /** How it ended, if it has. */
  readonly failure: string | undefined;
  /** The body of a request, in this server's API, for an answer of exactly `generate` tokens. */
  completion(question: Question): object;
  /** undefined if the server does not report them. */
  steps(): Promise<Task | undefined>;
  memory(): Promise<Memory>;
  stop(): Promise<void>;
}

export interface Question {
  readonly prompt: readonly number[];
  readonly generate: number;
  readonly temperature: number;
  readonly topK: number;
  readonly seed: number;
}

/** What the server has done since it started. */
export interface Task {
  readonly steps: number;
  /** The sum over all steps. */
  readonly sequences: number;
  /** Processor time, in milliseconds, of the process that has the connections, if another process computes. */
  readonly gatewayMs?: number;
}

export interface Memory {
  readonly residentBytes: number;
  /** Memory of the process that computes, divided by what it has to hold: the file and the used part of the cache. */
  readonly share?: number;
}

/** Ids below are control tokens in common vocabularies. */
const FIRST_ID = 256;
const MAX_ID = 32_000;

/** Random, so that no prompt finds another one in a cache. */
export function randomPrompt(random: Random, length: number): number[] {
  return Array.from({ length }, () => FIRST_ID + random.below(MAX_ID - FIRST_ID));
}

/** The sum of all series of a metric. NaN if there is none. */
export function metricOf(text: string, name: string): number {
  const series = [...text.matchAll(new RegExp(`^${name}(?:\\{[^}]*\\})? (\\S+)$`, 'gm'))];
  return series.reduce((sum, [, value]) => sum + Number(value), series.length === 0 ? Number.NaN : 0);
}
