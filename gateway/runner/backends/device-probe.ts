/** Looks again and again whether something is there, less and less often. */
import type { Clock, Timer } from '../../system/clock.ts';

export const firstProbeMs = 10_000;
export const maxProbeMs = 5 * 60_000;

export interface DeviceProbeOptions {
  /** Whether it is there. Must not reject. */
  readonly probe: (signal: AbortSignal) => Promise<boolean>;
  /** It is. The probe is over then, but for a false, which says that now is not the time. */
  readonly onFound: () => boolean;
  readonly clock: Clock;
}

export class DeviceProbe {
  readonly #options: DeviceProbeOptions;
  #delayMs = firstProbeMs;
  #notBefore = 0;
  #nextAt: number | undefined;
  #timer: Timer | undefined;
  #probing: AbortController | undefined;

  constructor(options: DeviceProbeOptions) {
    this.#options = options;
  }

  /** Until the next look; 0 while it looks; undefined when none is to come. */
  get nextInMs(): number | undefined {
    if (this.#probing !== undefined) return 0;
    return this.#nextAt === undefined ? undefined : Math.max(0, this.#nextAt - this.#options.clock.now());
  }

  /** Does nothing when it is on already. */
  start(): void {
    if (this.#timer !== undefined || this.#probing !== undefined) return;
    const { clock } = this.#options;
    const delayMs = Math.max(this.#delayMs, this.#notBefore - clock.now());
    // What is found and does not last was no find: only reset() makes looks more frequent again.
    this.#delayMs = Math.min(maxProbeMs, this.#delayMs * 2);
    this.#nextAt = clock.now() + delayMs;
    this.#timer = clock.after(delayMs, () => void this.#probeNow());
  }

  stop(): void {
    this.#timer?.cancel();
    this.#probing?.abort();
    this.#timer = undefined;
    this.#probing = undefined;
    this.#nextAt = undefined;
  }

  /** It had been there for long: looks are as frequent as at first. */
  reset(): void {
    this.#delayMs = firstProbeMs;
  }

  /** No look for so long, whatever comes. */
  holdOff(delayMs: number): void {
    this.#notBefore = this.#options.clock.now() + delayMs;
  }

  async #probeNow(): Promise<void> {
    this.#timer = undefined;
    this.#nextAt = undefined;
    const probing = new AbortController();
    this.#probing = probing;
    const isThere = await this.#options.probe(probing.signal);
    if (probing.signal.aborted) return;
    this.#probing = undefined;
    if (!isThere || !this.#options.onFound()) this.start();
  }
}
