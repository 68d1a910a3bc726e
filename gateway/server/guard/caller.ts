import { createHmac, randomBytes } from 'node:crypto';
import type { Context } from 'hono';
import type { CacheSharing } from '../../config/cache-sharing.ts';
import type { KeyRight } from './api-keys.ts';

/** Identifies the sender of a request by its key. */

/**
 * The key of the HMAC that keys are digested with, so that nobody can compute a digest from a guessed key. It stays the
 * same while requests come, or a caller would be another one in the middle of a request.
 */
let secret: Uint8Array = randomBytes(32);
/** The secret that is kept with the jobs, so that the next process knows their callers too. */
let keptSecret = secret;

/** Sets the secret that is kept with the jobs. areRequestsComing: callers that are known already keep their digests. */
export function setCallerSecret(kept: Uint8Array, areRequestsComing: boolean): void {
  keptSecret = kept;
  if (!areRequestsComing) secret = kept;
}

declare module 'hono' {
  interface ContextVariableMap {
    /** Set for requests with a valid key. */
    keyRight: KeyRight;
    keyDigest: Uint8Array;
    /** Returns the key's digest by the secret that is kept with the jobs. */
    keptKeyDigest: () => Uint8Array;
  }
}

/** A digest of 32 bytes that stands for a key and does not reveal it. */
export function digestOf(key: string): Uint8Array {
  return createHmac('sha256', secret).update(key).digest();
}

/** The same by the secret that is kept with the jobs. */
export function keptDigestOf(key: string): Uint8Array {
  return createHmac('sha256', keptSecret).update(key).digest();
}

/** Identifies the caller: equal for all requests with the same key, different for different keys, '' without a key. */
export function callerOf(c: Context): string {
  const digest = c.get('keyDigest') as Uint8Array | undefined;
  return digest === undefined ? '' : Buffer.from(digest).toString('hex');
}

/** Identifies the caller in the journal, for the next process too. */
export function keptCallerOf(c: Context): string {
  const digest = c.get('keptKeyDigest') as (() => Uint8Array) | undefined;
  return digest === undefined ? '' : Buffer.from(digest()).toString('hex');
}

const EVERYBODY = new Uint8Array();

declare module 'hono' {
  interface ContextVariableMap {
    /** Set for requests with a valid key. */
    cacheSalt: Uint8Array;
  }
}

/**
 * The salt of the prefix cache: requests share cached prefixes only with requests of the same salt. It is the digest of
 * the key, or empty if all share.
 */
export function cacheSaltOf(sharing: CacheSharing, keyDigest: Uint8Array): Uint8Array {
  return sharing === 'all' ? EVERYBODY : keyDigest;
}

export function cacheSalt(c: Context): Uint8Array {
  return c.get('cacheSalt') ?? EVERYBODY;
}
