/**
 * Requests that have killed their runner once too often. The same one sent again is refused before it can do so again.
 */
import { createHash } from 'node:crypto';
import type { GenerateRequest } from '../runner.ts';

export const quarantineMs = 10 * 60_000;
/** The one that was asked for least recently goes first. */
export const maxQuarantined = 1024;

interface Entry {
  /** When it is let go. */
  readonly untilMs: number;
  /** Of the prompt, in tokens. */
  readonly length: number;
}

export class Quarantine {
  readonly #now: () => number;
  /** By fingerprint, in the order of use. */
  readonly #entries = new Map<string, Entry>();
  /** How many of them have a prompt of so many tokens. */
  readonly #lengths = new Map<number, number>();

  /** now: milliseconds that only grow. */
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
    // Of nearly all requests this is enough to know: nobody hashes a long prompt for a short one's sake.
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

/** Of the prompt and every parameter, but not of the seed: most are drawn at random, and the same prompt comes with another. */
export function fingerprintOf(request: GenerateRequest): string {
  const {
    promptIds,
    modelIdentity: _model,
    deadlineMs: _deadline,
    cacheSalt: _salt,
    vocabulary: _spellings,
    begun: _begun,
    sampling,
    ...asked
  } = request;
  const { seed: _seed, ...parameters } = sampling;
  const plain = JSON.stringify({ ...asked, ...parameters }, (_key, value: unknown) =>
    value instanceof Map ? [...value] : value,
  );
  return createHash('sha256').update(digestOf(promptIds)).update(plain).digest('base64');
}

/** By prompt: each request is looked up twice, and the choices of one share their prompt. A millisecond for 130,000 ids. */
const digests = new WeakMap<readonly number[], Uint8Array>();

function digestOf(promptIds: readonly number[]): Uint8Array {
  let digest = digests.get(promptIds);
  if (digest === undefined) {
    digest = createHash('sha256').update(Uint32Array.from(promptIds)).digest();
    digests.set(promptIds, digest);
  }
  return digest;
}
