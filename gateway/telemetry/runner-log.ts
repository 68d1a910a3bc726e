import type { RunnerEvent } from '../runner/supervision/runner-event.ts';
import type { Log } from './log.ts';

/** Events of runners as lines of the log, whose keys are in snake_case whatever the code calls them. */
export function runnerLog(log: Log): (event: RunnerEvent) => void {
  return ({ level, event, ...fields }) => log[level]({ event, ...inSnakeCase(fields) });
}

export function inSnakeCase(fields: object): Record<string, unknown> {
  const entries = Object.entries(fields).map(([name, value]) => [snakeCase(name), value] as const);
  return Object.fromEntries(entries);
}

function snakeCase(name: string): string {
  return name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
