import { constants, fstatSync, openSync, writeSync } from 'node:fs';
import { type DestinationStream, pino } from 'pino';
import { type RunnerEvent, runnerEventNames } from '../runner/supervision/runner-event.ts';
import { snakeCase } from '../system/printable.ts';

/**
 * A log of one JSON object a line on stderr, each with `event`. Prompts, answers and keys are never logged: no caller
 * passes them here.
 */
export interface Log {
  debug(line: LogLine): void;
  info(line: LogLine): void;
  warn(line: LogLine): void;
  error(line: LogLine): void;
  /** A log whose lines also have these fields. */
  child(fields: Record<string, unknown>): Log;
}

export interface LogLine {
  readonly event: LogEvent;
  readonly [key: string]: unknown;
}

export const LOG_LEVELS = ['debug', 'info', 'warn', 'error', 'silent'] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

/**
 * Creates a log. fields: called for each line; the result is part of the line. destination: takes the lines; stderr by
 * default.
 */
export function createLog(
  level: LogLevel,
  fields: () => Record<string, unknown> = () => ({}),
  destination?: DestinationStream,
): Log {
  if (destination !== undefined) return logTo(destination, level, fields);
  const writer = stderrWriter();
  const log = logTo(writer, level, fields);
  writer.onDropped = (count) => log.warn({ event: 'log_lines_dropped', count });
  return log;
}

function logTo(destination: DestinationStream, level: LogLevel, fields: () => Record<string, unknown>): Log {
  const options = {
    level,
    base: null,
    mixin: fields,
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: levelName },
  };
  return pino(options, destination);
}

function levelName(label: string): { level: string } {
  return { level: label };
}

/** Every event of the log. docs/operations.md says when each is logged. */
export const LOG_EVENTS = [
  'startup',
  'listening',
  'ready',
  'shutdown',
  'stopped',
  'error',
  'connections_limited',
  'request',
  'client_stalled',
  'execute_start',
  'execute_end',
  'unusual_sampling',
  'fields_ignored',
  'settings_not_applied',
  'settings_unusable',
  'keys_reloaded',
  'keys_unusable',
  'callback_sent',
  'callback_skipped',
  'systemd_notify_failed',
  'model_unloaded',
  'audit_differs',
  'audit_unverifiable',
  'kv_disk_opened',
  'kv_disk_waiting',
  'kv_disk_failed',
  'journal_opened',
  'journal_off',
  'journal_unavailable',
  'journal_damaged',
  'journal_entry_damaged',
  'journal_entry_unknown',
  'journal_failed',
  'durable_parked',
  'durable_resumed',
  'durable_waiting',
  'durable_end',
  'durable_lost',
  'batch_waits',
  'batch_failed',
  'batch_end',
  'batch_record_damaged',
  'batch_not_forgotten',
  'crash_report_failed',
  'recording_not_kept',
  'run_file_unwritten',
  'traces_not_exported',
  'log_lines_dropped',
  ...runnerEventNames,
] as const;

export type LogEvent = (typeof LOG_EVENTS)[number];

/** Writes events of runners to the log. The lines' keys are in snake_case. */
export function runnerLog(log: Log): (event: RunnerEvent) => void {
  return ({ level, event, ...fields }) => log[level]({ event, ...inSnakeCase(fields) });
}

export function inSnakeCase(fields: object): Record<string, unknown> {
  const entries = Object.entries(fields).map(([name, value]) => [snakeCase(name), value] as const);
  return Object.fromEntries(entries);
}

export const maxWaitingBytes = 2 ** 20;
const retryMs = 20;
/** How long waiting lines are tried at the end of the process. */
export const flushMs = 500;

/** Writes some of the bytes and returns how many. Throws EAGAIN if there is no room for any. */
type Write = (bytes: Uint8Array) => number;

/**
 * Writes lines of the log to stderr without ever waiting for the reader: a reader that has stopped would stop every
 * stream. A line is written at once if there is room, so that a crash loses nothing. Otherwise it waits here, within a
 * bound. Lines beyond the bound are dropped, and their number is logged as soon as there is room again.
 */
export class LogWriter {
  readonly #write: Write;
  /** Called with the number of lines that were dropped, to log it. */
  onDropped: (count: number) => void = () => {};
  readonly #waiting: Uint8Array[] = [];
  #waitingBytes = 0;
  #numDropped = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(write: Write) {
    this.#write = write;
  }

  write(line: string): void {
    const bytes = Buffer.from(line);
    if (this.#waitingBytes + bytes.length > maxWaitingBytes) {
      this.#numDropped += 1;
      return;
    }
    this.#waiting.push(bytes);
    this.#waitingBytes += bytes.length;
    if (this.#timer === undefined) this.#send();
  }

  /** Writes the waiting lines, for at most flushMs. Call it when the process exits. */
  flush(): void {
    const end = performance.now() + flushMs;
    this.#send();
    while (this.#waiting.length > 0 && performance.now() < end) {
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, retryMs);
      this.#send();
    }
    clearTimeout(this.#timer);
  }

  #send(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    while (this.#waiting.length > 0) {
      if (!this.#sendFirst()) {
        // The timer does not keep the process alive: it flushes when it exits.
        this.#timer = setTimeout(() => this.#send(), retryMs).unref();
        return;
      }
    }
    if (this.#numDropped === 0) return;
    const count = this.#numDropped;
    this.#numDropped = 0;
    this.onDropped(count);
  }

  /** Returns false if nothing could be written because there is no room. */
  #sendFirst(): boolean {
    const [bytes] = this.#waiting;
    if (bytes === undefined) return true;
    let numWritten: number;
    try {
      numWritten = this.#write(bytes);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'EAGAIN') return false;
      // Nobody can read the log any more, and there is nowhere else to report that.
      numWritten = bytes.length;
    }
    this.#waitingBytes -= numWritten;
    if (numWritten < bytes.length) this.#waiting[0] = bytes.subarray(numWritten);
    else this.#waiting.shift();
    return true;
  }
}

export function stderrWriter(): LogWriter {
  const fd = fdThatDoesNotWait();
  const writer = new LogWriter((bytes) => writeSync(fd, bytes));
  process.once('exit', () => writer.flush());
  return writer;
}

/**
 * A descriptor of stderr whose writes do not wait. Whether writes wait is a property of the open pipe, shared by all
 * processes that have it, and any of them may change it. So a pipe is opened again for this process alone. A socket
 * cannot be opened again; Node makes it non-blocking when its stream is first used. Writes to files do not wait, and a
 * terminal has a user who looks at it.
 */
function fdThatDoesNotWait(): number {
  const fd = 2;
  const stats = fstatSync(fd);
  if (stats.isFIFO()) {
    try {
      return openSync(`/proc/self/fd/${fd}`, constants.O_WRONLY | constants.O_NONBLOCK);
    } catch {
      // The pipe belongs to another user, so the shared one has to do.
    }
  }
  if (stats.isFIFO() || stats.isSocket()) void process.stderr;
  return fd;
}
