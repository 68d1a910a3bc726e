import { type DestinationStream, pino } from 'pino';
import type { LogEvent } from './log-events.ts';
import { stderrWriter } from './log-writer.ts';

/**
 * One JSON object a line on stderr, each with `event`. Prompts, answers and keys are never logged: nothing here is
 * given any.
 */
export interface Log {
  debug(line: LogLine): void;
  info(line: LogLine): void;
  warn(line: LogLine): void;
  error(line: LogLine): void;
  /** One whose lines have these fields as well. */
  child(fields: Record<string, unknown>): Log;
}

export interface LogLine {
  readonly event: LogEvent;
  readonly [key: string]: unknown;
}

export const LOG_LEVELS = ['debug', 'info', 'warn', 'error', 'silent'] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

/** fields: asked for each line, and on it. destination: takes the lines; stderr when left out. */
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
