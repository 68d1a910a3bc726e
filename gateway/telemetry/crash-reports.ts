/**
 * Keeps a report on each runner that crashed or exited unexpectedly: the newest ones in memory, for clients, and as files if a folder is
 * named. The recording is moved beside its report before the next runner records to the same path.
 */
import { mkdirSync, readdirSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import * as z from 'zod';
import { jsonText } from '../json/json-values.ts';
import type { RunnerStatus } from '../runner/runner.ts';
import { crashKind, type RunnerCrash } from '../runner/supervision/exit-policy.ts';
import { inSnakeCase, type Log } from './log.ts';

/** The most reports in memory, and in the folder. */
export const maxReports = 32;
/** The most bytes in the folder, recordings included. The newest report is kept whatever its size. */
export const maxFolderBytes = 2 ** 30;
export const maxRequestsShown = 64;

const OURS = /^crash-[\dTZ.-]+-\d+\.(json|frames)$/;

const count = z.int().nullable();
const text = z.string().nullable();
const strings = z.array(z.string()).readonly();

const crashedRequest = z.object({
  request_id: z.int(),
  prompt_tokens: z.int(),
  emitted_tokens: z.int(),
  strikes: z.int(),
  max_tokens: z.int(),
  temperature: z.number(),
  top_k: z.int(),
  top_p: z.number(),
  min_p: z.number(),
  repetition_penalty: z.number(),
  presence_penalty: z.number(),
  frequency_penalty: z.number(),
  logit_biases: z.int(),
  allowed_tokens: z.int(),
  banned_tokens: z.int(),
  /** A 64-bit integer. The JSON has all of its digits. */
  seed: z.custom<object>().meta({ type: 'integer' }),
});

/** A report, with the names that clients see. */
export const crashReport = z.object({
  model: z.string().optional(),
  time: z.string(),
  reason: z.string(),
  message: z.string(),
  pid: count,
  runner: count,
  start: count,
  exit_code: count,
  signal: text,
  phase: text,
  step: count,
  ready_for_ms: count,
  build: text,
  numerics_id: text,
  model_identity: text,
  command: strings,
  stderr_tail: strings,
  num_requests: z.int(),
  requests: z.array(crashedRequest).readonly(),
  recording: text,
});

export interface CrashReport extends Omit<z.infer<typeof crashReport>, 'requests'> {
  /** As in the schema. */
  readonly requests: readonly object[];
}

export interface CrashReportsOptions {
  /** Undefined: no files are written, and recordings stay where they are. */
  readonly folder: string | undefined;
  /** The path that runners record to, if they do. */
  readonly recording: string | undefined;
  readonly log: Log;
  readonly now: () => number;
}

export class CrashReports {
  readonly #options: CrashReportsOptions;
  readonly #newest: CrashReport[] = [];

  constructor(options: CrashReportsOptions) {
    this.#options = options;
  }

  /** The reports of this process, the newest first. */
  get newest(): readonly CrashReport[] {
    return this.#newest;
  }

  /** Adds a report. model: the model's name, if there are several. */
  add(crash: RunnerCrash, model?: string): void {
    const report = { ...(model === undefined ? {} : { model }), ...reportOf(crash, this.#time()) };
    this.#add(report, (path) => this.#keepRecording(path));
  }

  /** Adds a report on an answer that an audit has found to differ. The runner that computed it goes on. */
  addDifference(reason: string, runner: RunnerStatus): void {
    this.#add(differenceReport(reason, runner, this.#time()), () => null);
  }

  #time(): string {
    return new Date(this.#options.now()).toISOString();
  }

  /** recordingAt: moves the runner's recording to this path, and returns where it is. */
  #add(made: CrashReport, recordingAt: (path: string) => string | null): void {
    const { folder, log } = this.#options;
    let report = made;
    if (folder !== undefined) {
      const path = join(folder, `crash-${report.time.replaceAll(':', '-')}-${report.pid ?? 0}`);
      try {
        mkdirSync(folder, { recursive: true, mode: 0o700 });
        report = { ...report, recording: recordingAt(`${path}.frames`) };
        writeFileSync(`${path}.json`, `${jsonText(report)}\n`, { mode: 0o600 });
        prune(folder);
      } catch (error) {
        // A full disk must not stop the serving.
        log.error({ event: 'crash_report_failed', folder, msg: (error as Error).message });
      }
    }
    this.#newest.unshift(report);
    this.#newest.splice(maxReports);
  }

  /** Moves the recording to the path and returns it; null if there is no recording. */
  #keepRecording(path: string): string | null {
    const { recording, log } = this.#options;
    if (recording === undefined) return null;
    try {
      renameSync(recording, path);
      return path;
    } catch (error) {
      const { code, message } = error as NodeJS.ErrnoException;
      // The runner died before it began to record.
      if (code === 'ENOENT') return null;
      const hint = code === 'EXDEV' ? '; name a folder and a recording on the same file system' : '';
      log.error({ event: 'recording_not_kept', recording, msg: `${message}${hint}` });
      return null;
    }
  }
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
    requests: requests.slice(0, maxRequestsShown).map(inSnakeCase),
    recording: null,
  };
}

/** What a report of a runner that lives cannot say is null. */
function differenceReport(message: string, { pid, info }: RunnerStatus, time: string): CrashReport {
  return {
    ...{ time, reason: 'audit', message, pid: pid ?? null, runner: null, start: null },
    ...{ exit_code: null, signal: null, phase: null, step: null, ready_for_ms: null },
    build: info?.build ?? null,
    numerics_id: info?.numericsId ?? null,
    model_identity: info?.modelIdentity ?? null,
    ...{ command: [], stderr_tail: [], num_requests: 0, requests: [], recording: null },
  };
}

/**
 * Removes the oldest files beyond the bounds. Their names begin with the time, so sorted names are in the order of the
 * crashes.
 */
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
