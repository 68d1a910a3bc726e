/** The gateway's log, line by line as it is written. */
import { createInterface } from 'node:readline';
import type { Gateway } from '../fixtures/gateway.ts';

export type LogEntry = Readonly<Record<string, unknown>>;

export class LogEvents {
  readonly #listeners = new Set<(entry: LogEntry) => void>();

  constructor(gateway: Gateway) {
    if (gateway.process.stderr === null) throw new Error('The gateway has no stderr.');
    createInterface(gateway.process.stderr).on('line', (line) => {
      if (!line.startsWith('{')) return;
      const entry = JSON.parse(line) as LogEntry;
      for (const listener of this.#listeners) listener(entry);
    });
  }

  /** The next entry of this event. */
  next(event: string): Promise<LogEntry> {
    return new Promise((resolve) => {
      const listener = (entry: LogEntry) => {
        if (entry.event !== event) return;
        this.#listeners.delete(listener);
        resolve(entry);
      };
      this.#listeners.add(listener);
    });
  }
}
