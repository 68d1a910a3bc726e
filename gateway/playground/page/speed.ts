/** Tokens per second of the last minute: those that this page was sent, and those that the server drew for everybody. */

export const SPEED_WINDOW_SEC = 60;
export const SAMPLE_MS = 500;
const MAX_SAMPLES = (SPEED_WINDOW_SEC * 1000) / SAMPLE_MS;
/** Runners tell their counters once a second: over less time the rate would be of 0, 1 or 2 of these seconds. */
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

  /** Seconds of the page's clock at which another runner was started. */
  get restarts(): readonly number[] {
    return this.#restarts;
  }

  countOwn(numTokens: number): void {
    this.#numOwn += numTokens;
  }

  /** generatedTokens: a counter of runners, which begins anew with another runner; undefined: nobody tells. */
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

  /** To be called every SAMPLE_MS; after a while without, as of a page that was hidden, what was counted is thrown away. */
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
