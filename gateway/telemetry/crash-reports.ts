/**
 * What is known of each runner that died unasked: the newest in memory, for clients, and as files if a folder is named.
 * A recording is put beside its report, before the next runner begins its own in the same place.
 */
import { mkdirSync, readdirSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { stringify } from 'lossless-json';
import { crashKind, type RunnerCrash } from '../runner/supervision/crash.ts';
import type { Log } from './log.ts';

/** In memory and in the folder. */
export const maxReports = 32;
/** In the folder, with recordings; the newest report stays whatever it takes. */
export const maxFolderBytes = 2 ** 30;
/** Of one report. */
export const maxRequestsShown = 64;

const OURS = /^crash-[\dTZ.-]+-\d+\.(json|frames)$/;

/** Under the names that clients see. */
export interface CrashReport {
  /** The name of the model, where there are several. */
  readonly model?: string;
  readonly time: string;
  readonly reason: string;
  readonly message: string;
  readonly pid: number | null;
  /** Which of several, from 0; null: there is one. */
  readonly runner: number | null;
  readonly start: number;
  readonly exit_code: number | null;
  readonly signal: string | null;
  readonly phase: string | null;
  readonly step: number;
  readonly ready_for_ms: number | null;
  readonly build: string | null;
  readonly numerics_id: string | null;
  readonly model_identity: string | null;
  readonly command: readonly string[];
  readonly stderr_tail: readonly string[];
  readonly num_requests: number;
  readonly requests: readonly object[];
  /** The file of the recording, if there is one. */
  readonly recording: string | null;
}

export interface CrashReportsOptions {
  /** Undefined: no files are written, and recordings stay where they are. */
  readonly folder: string | undefined;
  /** Where runners record, if they do. */
  readonly recording: string | undefined;
  readonly log: Log;
  /** Milliseconds since 1970. */
  readonly now: () => number;
}

export class CrashReports {
  readonly #options: CrashReportsOptions;
  readonly #newest: CrashReport[] = [];

  constructor(options: CrashReportsOptions) {
    this.#options = options;
  }

  /** Of this gateway's life, the newest first. */
  get newest(): readonly CrashReport[] {
    return this.#newest;
  }

  /** model: the name of one of several. */
  add(crash: RunnerCrash, model?: string): void {
    const { folder, now, log } = this.#options;
    const time = new Date(now()).toISOString();
    let report: CrashReport = { ...(model === undefined ? {} : { model }), ...reportOf(crash, time) };
    if (folder !== undefined) {
      const path = join(folder, `crash-${time.replaceAll(':', '-')}-${crash.pid ?? 0}`);
      try {
        mkdirSync(folder, { recursive: true, mode: 0o700 });
        report = { ...report, recording: this.#keepRecording(`${path}.frames`) };
        writeFileSync(`${path}.json`, `${jsonOf(report)}\n`, { mode: 0o600 });
        prune(folder);
      } catch (error) {
        // A full disk is no reason to stop serving.
        log.error({ event: 'crash_report_failed', folder, msg: (error as Error).message });
      }
    }
    this.#newest.unshift(report);
    this.#newest.splice(maxReports);
  }

  /** Where it is now; null if there is none. */
  #keepRecording(path: string): string | null {
    const { recording, log } = this.#options;
    if (recording === undefined) return null;
    try {
      renameSync(recording, path);
      return path;
    } catch (error) {
      const { code, message } = error as NodeJS.ErrnoException;
      // It died before it began to record.
      if (code === 'ENOENT') return null;
      const hint = code === 'EXDEV' ? '; name a folder and a recording on the same file system' : '';
      log.error({ event: 'recording_not_kept', recording, msg: `${message}${hint}` });
      return null;
    }
  }
}

export function jsonOf(value: object): string {
  const json = stringify(value);
  if (json === undefined) throw new TypeError('a report has no JSON form');
  return json;
}

function reportOf(crash: RunnerCrash, time: string): CrashReport {
  const { death, command, requests } = crash;
  const stderr = death.stderrTail.trimEnd();
  return {
    time,
    reason: crashKind(crash),
    message: crash.message,
    pid: crash.pid ?? null,
    runner: crash.runner ?? null,
    start: crash.start,
    exit_code: death.exit.code ?? null,
    signal: death.exit.signal ?? null,
    phase: death.phase ?? null,
    step: death.step,
    ready_for_ms: death.readyForMs === undefined ? null : Math.round(death.readyForMs),
    build: crash.build ?? null,
    numerics_id: crash.numericsId ?? null,
    model_identity: crash.modelIdentity ?? null,
    command: [command.file, ...command.args],
    stderr_tail: stderr === '' ? [] : stderr.split('\n'),
    num_requests: requests.length,
    requests: requests.slice(0, maxRequestsShown).map((request) => ({
      request_id: request.requestId,
      prompt_tokens: request.numPromptTokens,
      emitted_tokens: request.numEmitted,
      strikes: request.crashCount,
      max_tokens: request.maxTokens,
      temperature: request.temperature,
      top_k: request.topK,
      top_p: request.topP,
      min_p: request.minP,
      repetition_penalty: request.repetitionPenalty,
      presence_penalty: request.presencePenalty,
      frequency_penalty: request.frequencyPenalty,
      logit_biases: request.numBiases,
      allowed_tokens: request.numAllowedTokens,
      banned_tokens: request.numBannedTokens,
      seed: request.seed,
    })),
    recording: null,
  };
}

/** Names begin with the time, so their order is that of the crashes. */
function prune(folder: string): void {
  const crashes = new Map<string, string[]>();
  for (const name of readdirSync(folder)
    .filter((name) => OURS.test(name))
    .sort()
    .reverse()) {
    const stem = name.replace(/\.[a-z]+$/, '');
    crashes.set(stem, [...(crashes.get(stem) ?? []), join(folder, name)]);
  }
  let numBytes = 0;
  for (const [index, files] of [...crashes.values()].entries()) {
    for (const file of files) numBytes += statSync(file).size;
    const isKept = index === 0 || (index < maxReports && numBytes <= maxFolderBytes);
    if (!isKept) for (const file of files) rmSync(file);
  }
}
