import { type Logger, pino } from 'pino';

/** One JSON object a line on stderr. Prompts, answers and keys are never logged: nothing here is given any. */
export type Log = Pick<Logger, 'debug' | 'info' | 'warn' | 'error'>;

export const LOG_LEVELS = ['debug', 'info', 'warn', 'error', 'silent'] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

export function createLog(level: LogLevel): Log {
  const options = {
    level,
    base: null,
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: levelName },
  };
  return pino(options, pino.destination({ fd: 2, sync: true }));
}

function levelName(label: string): { level: string } {
  return { level: label };
}
