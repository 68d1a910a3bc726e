import { type Clock, DeadlineTimer, systemClock, type Timer } from '../../system/clock.ts';

/** After this long a silence a stream sends a comment, so that clients and proxies see that it lives. */
export const KEEP_ALIVE_INTERVAL_MS = 10_000;

/** Nobody reads faster than this. Faster tokens are gathered into fewer writes. */
const READING_TOKENS_PER_SEC = 100;
/** The time between two writes of a stream above that speed, and the longest that a token waits for its write. */
export const GATHER_MS = 1000 / READING_TOKENS_PER_SEC;

/** What the timers need of a stream. */
export interface TimedStream {
  /** When the stream last wrote, by the clock. */
  readonly writtenMs: number;
  flush(): void;
  keepAlive(): void;
}

/** The timers of all streams: one for all that are silent, and one for all that gather. */
export class StreamTimes {
  readonly clock: Clock;
  readonly #silent: DeadlineTimer<TimedStream>;
  readonly #gathering = new Set<TimedStream>();
  #timer: Timer | undefined;

  constructor(clock: Clock = systemClock) {
    this.clock = clock;
    this.#silent = new DeadlineTimer(clock, (stream, nowMs) => {
      const isSilent = nowMs - stream.writtenMs >= KEEP_ALIVE_INTERVAL_MS;
      this.#silent.set(stream, (isSilent ? nowMs : stream.writtenMs) + KEEP_ALIVE_INTERVAL_MS);
      if (isSilent) stream.keepAlive();
    });
  }

  /** Has the stream send a comment in each silence, until forget(). */
  keepAlive(stream: TimedStream): void {
    this.#silent.set(stream, this.clock.now() + KEEP_ALIVE_INTERVAL_MS);
  }

  /** Flushes the stream GATHER_MS after its last write, or earlier together with others. */
  gather(stream: TimedStream, nowMs: number): void {
    this.#gathering.add(stream);
    const delayMs = Math.max(0, stream.writtenMs + GATHER_MS - nowMs);
    this.#timer ??= this.clock.after(delayMs, () => this.#flush());
  }

  /** Drops the stream's timers, because it has ended or its client is behind. */
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

/** One for the process, because there is one event loop. */
export const streamTimes = new StreamTimes();
