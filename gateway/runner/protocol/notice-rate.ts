/**
 * What a runner sends of its own accord: heartbeats and statistics once a second, progress ten times. A runner that sends
 * more than that by far keeps the gateway busy with nothing.
 */
import { ProtocolError } from './protocol-error.ts';

export const maxNoticesPerSecond = 100;
/** A pipe that was not read for a while holds so many, at most, of an honest runner. */
export const maxNoticesAtOnce = 4096;

export class NoticeRate {
  readonly #now: () => number;
  /** How many may come at once by now. */
  #left = maxNoticesAtOnce;
  #countedAt: number;

  /** now: milliseconds that only grow. */
  constructor(now: () => number) {
    this.#now = now;
    this.#countedAt = now();
  }

  /** ProtocolError for one too many. */
  count(name: string): void {
    const now = this.#now();
    const earned = ((now - this.#countedAt) / 1000) * maxNoticesPerSecond;
    this.#left = Math.min(maxNoticesAtOnce, this.#left + earned) - 1;
    this.#countedAt = now;
    if (this.#left >= 0) return;
    throw new ProtocolError(
      'rate',
      `The runner sent ${name} again and again: more than ${maxNoticesAtOnce}, faster than ${maxNoticesPerSecond} a second.`,
    );
  }
}
