/**
 * Requests that have killed their runner once too often. The same one sent again is refused before it can do so again.
 */
import { createHash } from 'node:crypto';
import type { GenerateRequest } from './runner.ts';

export const quarantineMs = 10 * 60_000;
/** The one that was asked for least recently goes first. */
export const maxQuarantined = 1024;

export class Quarantine {
  readonly #now: () => number;
  /** Fingerprint to the time it is let go, in the order of use. */
  readonly #until = new Map<string, number>();

  /** now: milliseconds that only grow. */
  constructor(now: () => number) {
    this.#now = now;
  }

  add(request: GenerateRequest): void {
    this.#put(fingerprintOf(request), this.#now() + quarantineMs);
    const [oldest] = this.#until.keys();
    if (this.#until.size > maxQuarantined && oldest !== undefined) this.#until.delete(oldest);
  }

  has(request: GenerateRequest): boolean {
    // Nearly always, and then nobody computes a hash of a long prompt.
    if (this.#until.size === 0) return false;
    const fingerprint = fingerprintOf(request);
    const until = this.#until.get(fingerprint);
    if (until === undefined) return false;
    if (this.#now() < until) {
      this.#put(fingerprint, until);
      return true;
    }
    this.#until.delete(fingerprint);
    return false;
  }

  #put(fingerprint: string, until: number): void {
    this.#until.delete(fingerprint);
    this.#until.set(fingerprint, until);
  }
}

/** Of the prompt and every parameter, but not of the seed: most are drawn at random, and the same prompt comes with another. */
export function fingerprintOf(request: GenerateRequest): string {
  const { modelIdentity: _model, deadlineMs: _deadline, cacheSalt: _salt, sampling, ...asked } = request;
  const { seed: _seed, ...parameters } = sampling;
  const plain = JSON.stringify({ ...asked, ...parameters }, (_key, value: unknown) =>
    value instanceof Map ? [...value] : value,
  );
  return createHash('sha256').update(plain).digest('base64');
}
