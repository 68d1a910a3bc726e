import { Alarms } from '../../system/alarms.ts';
import { type Clock, systemClock, type Timer } from '../../system/clock.ts';

/** A stream that has been silent for so long gets a comment: clients and proxies in between see that it lives. */
export const KEEP_ALIVE_INTERVAL_MS = 10_000;

/** Nobody reads faster: above this, what comes is gathered into fewer writes. */
export const READING_TOKENS_PER_SEC = 100;
/** From one write of a stream to its next, above that speed. No token waits longer for its write. */
export const GATHER_MS = 1000 / READING_TOKENS_PER_SEC;

/** A stream as its times see it. */
export interface TimedStream {
  /** When it last wrote, by the clock. */
  readonly writtenMs: number;
  flush(): void;
  keepAlive(): void;
}

/** What streams do after a time: one timer for all that are silent, and one for all that gather. */
export class StreamTimes {
  readonly clock: Clock;
  readonly #silent: Alarms<TimedStream>;
  readonly #gathering = new Set<TimedStream>();
  #timer: Timer | undefined;

  constructor(clock: Clock = systemClock) {
    this.clock = clock;
    this.#silent = new Alarms(clock, (stream, nowMs) => {
      const isSilent = nowMs - stream.writtenMs >= KEEP_ALIVE_INTERVAL_MS;
      this.#silent.set(stream, (isSilent ? nowMs : stream.writtenMs) + KEEP_ALIVE_INTERVAL_MS);
      if (isSilent) stream.keepAlive();
    });
  }

  /** Keeps it alive until forget. */
  keepAlive(stream: TimedStream): void {
    this.#silent.set(stream, this.clock.now() + KEEP_ALIVE_INTERVAL_MS);
  }

  /** Flushes it when GATHER_MS have passed since its last write, or earlier with others. */
  gather(stream: TimedStream, nowMs: number): void {
    this.#gathering.add(stream);
    const delayMs = Math.max(0, stream.writtenMs + GATHER_MS - nowMs);
    this.#timer ??= this.clock.after(delayMs, () => this.#flush());
  }

  /** The stream has ended, or its client is behind: no timer is left for it. */
  forget(stream: TimedStream): void {
    this.#silent.delete(stream);
    this.#gathering.delete(stream);
    if (this.#gathering.size > 0) return;
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  #flush(): void {
    this.#timer = undefined;
    const gathered = [...this.#gathering];
    this.#gathering.clear();
    for (const stream of gathered) stream.flush();
  }
}

/** There is one event loop. */
export const streamTimes = new StreamTimes();
