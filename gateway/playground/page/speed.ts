/** Tokens per second over the last minute: those that this page received, and those that the server generated for all clients. */

export const SPEED_WINDOW_SEC = 60;
export const SAMPLE_MS = 500;
const MAX_SAMPLES = (SPEED_WINDOW_SEC * 1000) / SAMPLE_MS;
/** Runners report their counters once a second. Over a shorter window, the rate would cover zero to two of these reports. */
const SERVER_WINDOW_MS = 3000;

export interface Sample {
  /** Seconds of the page's clock. */
  readonly at: number;
  readonly own: number;
  /** Null while it is not known. */
  readonly server: number | null;
}

export class SpeedHistory {
  #samples: Sample[] = [];
  #counts: { readonly ms: number; readonly tokens: number }[] = [];
  #numOwn = 0;
  #sampledMs: number | undefined;
  #restarts: number[] = [];

  get samples(): readonly Sample[] {
    return this.#samples;
  }

  /** When a runner was restarted, in seconds of the page's clock. */
  get restarts(): readonly number[] {
    return this.#restarts;
  }

  countOwn(numTokens: number): void {
    this.#numOwn += numTokens;
  }

  /** generatedTokens: a counter of the runners, which begins again with a new runner. Undefined if no runner reports it. */
  countServer(generatedTokens: number | undefined, nowMs: number): void {
    const last = this.#counts.at(-1);
    if (generatedTokens === undefined || (last !== undefined && generatedTokens < last.tokens))
      this.#counts = [];
    if (generatedTokens === undefined) return;
    this.#counts.push({ ms: nowMs, tokens: generatedTokens });
    this.#counts = this.#counts.filter(({ ms }) => ms >= nowMs - SERVER_WINDOW_MS);
  }

  noteRestart(nowMs: number): void {
    this.#restarts.push(nowMs / 1000);
  }

  /** Must be called every SAMPLE_MS. After a long gap, as with a hidden page, the counted tokens are dropped. */
  sample(nowMs: number): void {
    const passedMs = nowMs - (this.#sampledMs ?? nowMs - SAMPLE_MS);
    const own = passedMs > 4 * SAMPLE_MS ? 0 : (this.#numOwn * 1000) / Math.max(passedMs, 1);
    this.#samples.push({ at: nowMs / 1000, own, server: this.#serverRate() });
    this.#samples = this.#samples.slice(-MAX_SAMPLES);
    const begin = nowMs / 1000 - SPEED_WINDOW_SEC;
    this.#restarts = this.#restarts.filter((at) => at >= begin);
    this.#numOwn = 0;
    this.#sampledMs = nowMs;
  }

  #serverRate(): number | null {
    const first = this.#counts[0];
    const last = this.#counts.at(-1);
    if (first === undefined || last === undefined || last.ms === first.ms) return null;
    return ((last.tokens - first.tokens) * 1000) / (last.ms - first.ms);
  }
}

/** A duration as people read it. */
export function milliseconds(duration: number): string {
  return duration < 1000 ? `${Math.round(duration)} ms` : `${(duration / 1000).toFixed(2)} s`;
}
