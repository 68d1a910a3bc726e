/**
 * Requests that have killed their runner too often. The same request sent again is refused, so that it cannot kill another
 * runner.
 */
import { createHash } from 'node:crypto';
import type { GenerateRequest } from '../runner.ts';

export const quarantineMs = 10 * 60_000;
/** Above this number, the entry that was looked up least recently is dropped. */
export const maxQuarantined = 1024;

interface Entry {
  readonly untilMs: number;
  readonly length: number;
}

export class Quarantine {
  readonly #now: () => number;
  /** Entries by fingerprint; the least recently used one comes first. */
  readonly #entries = new Map<string, Entry>();
  readonly #lengths = new Map<number, number>();

  /** now: a monotonic clock in milliseconds. */
  constructor(now: () => number) {
    this.#now = now;
  }

  add(request: GenerateRequest): void {
    const { length } = request.promptIds;
    this.#put(fingerprintOf(request), { untilMs: this.#now() + quarantineMs, length });
    const [oldest] = this.#entries.keys();
    if (this.#entries.size > maxQuarantined && oldest !== undefined) this.#drop(oldest);
  }

  has(request: GenerateRequest): boolean {
    // Nearly all requests are answered by this check, without a hash of their prompt.
    if (!this.#lengths.has(request.promptIds.length)) return false;
    const fingerprint = fingerprintOf(request);
    const entry = this.#entries.get(fingerprint);
    if (entry === undefined) return false;
    if (this.#now() >= entry.untilMs) {
      this.#drop(fingerprint);
      return false;
    }
    this.#put(fingerprint, entry);
    return true;
  }

  #put(fingerprint: string, entry: Entry): void {
    this.#drop(fingerprint);
    this.#entries.set(fingerprint, entry);
    this.#lengths.set(entry.length, (this.#lengths.get(entry.length) ?? 0) + 1);
  }

  #drop(fingerprint: string): void {
    const entry = this.#entries.get(fingerprint);
    if (entry === undefined) return;
    this.#entries.delete(fingerprint);
    const left = (this.#lengths.get(entry.length) ?? 0) - 1;
    if (left > 0) this.#lengths.set(entry.length, left);
    else this.#lengths.delete(entry.length);
  }
}

/**
 * A digest of the prompt and all parameters except those of its sender and the seed: most seeds are drawn at random, so the same request
 * comes back with another one.
 */
export function fingerprintOf(request: GenerateRequest): string {
  const {
    promptIds,
    modelIdentity: _model,
    deadlineMs: _deadline,
    cacheSalt: _salt,
    vocabulary: _spellings,
    resumeFrom: _resumed,
    api: _api,
    caller: _caller,
    priority: _priority,
    trace: _trace,
    sampling,
    ...asked
  } = request;
  const { seed: _seed, ...parameters } = sampling;
  // Sorted: a request that was read from the journal has its fields in another order.
  const fields = Object.entries({ ...asked, ...parameters }).sort(([a], [b]) => (a < b ? -1 : 1));
  const plain = JSON.stringify(fields, (_key, value: unknown) => (value instanceof Map ? [...value] : value));
  return createHash('sha256').update(digestOf(promptIds)).update(plain).digest('base64');
}

/**
 * Digests by prompt array, because each request is looked up twice and the choices of one request share their prompt. Hashing
 * 130,000 ids takes a millisecond.
 */
const digests = new WeakMap<readonly number[], Uint8Array>();

function digestOf(promptIds: readonly number[]): Uint8Array {
  let digest = digests.get(promptIds);
  if (digest === undefined) {
    digest = createHash('sha256').update(Uint32Array.from(promptIds)).digest();
    digests.set(promptIds, digest);
  }
  return digest;
}
