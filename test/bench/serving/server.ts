import { readFileSync } from 'node:fs';
import type { Random } from '../../fixtures/random.ts';

/** A server under measurement, started for it and stopped after it. */

export interface Server {
  readonly url: string;
  /** When the process was started, as performance.now() has it. */
  readonly startedMs: number;
  /** How it ended, if it has. */
  readonly failure: string | undefined;
  /** A request in this server's words, for an answer of exactly so many tokens. */
  completion(question: Question): object;
  /** undefined: it does not tell. */
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

/** Since the server started. */
export interface Task {
  readonly steps: number;
  /** Over all of them. */
  readonly sequences: number;
  /** Processor time of the process that has the connections, in milliseconds, where another one computes. */
  readonly gatewayMs?: number;
}

export interface Memory {
  readonly residentBytes: number;
  /** Of what computes, over what it has to hold: the file and what of the cache is in use. */
  readonly share?: number;
}

/** Ids below are control tokens in common vocabularies. */
const FIRST_ID = 256;
const MAX_ID = 32_000;

/** No two find each other in a cache. */
export function randomPrompt(random: Random, length: number): number[] {
  return Array.from({ length }, () => FIRST_ID + random.below(MAX_ID - FIRST_ID));
}

/** Of a process, files that are mapped included. */
export function residentBytes(pid: number): number {
  const [, kilobytes] = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
  return Number(kilobytes) * 1024;
}

/** Of a process and all its threads, in milliseconds. Linux counts it in hundredths of a second. */
export function processorMs(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  // Behind the name, which may hold anything: state is the first field there, user and system time the 12th and 13th.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[11]) + Number(fields[12])) * 10;
}

/** The sum of all series of a metric. */
export function metricOf(text: string, name: string): number {
  const series = [...text.matchAll(new RegExp(`^${name}(?:\\{[^}]*\\})? (\\S+)$`, 'gm'))];
  return series.reduce((sum, [, value]) => sum + Number(value), series.length === 0 ? Number.NaN : 0);
}
