import { type DestinationStream, pino } from 'pino';
import { type RunnerEvent, runnerEventNames } from '../runner/supervision/runner-event.ts';
import { snakeCase } from '../system/printable.ts';
import { stderrWriter } from './log-writer.ts';

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
  'journal_opened',
  'journal_off',
  'journal_unavailable',
  'journal_damaged',
  'journal_entry_damaged',
  'journal_failed',
  'durable_resumed',
  'durable_waiting',
  'durable_end',
  'durable_lost',
  'crash_report_failed',
  'recording_not_kept',
  'run_file_unwritten',
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
