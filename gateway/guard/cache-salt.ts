import { createHmac, randomBytes } from 'node:crypto';
import type { Context } from 'hono';

/**
 * Who shares what was computed for a prompt with whom. A prompt that is found in the cache is answered sooner, so that
 * sharing among keys lets the holder of one find out what the others ask.
 */
export const CACHE_SHARINGS = ['per-key', 'all'] as const;

export type CacheSharing = (typeof CACHE_SHARINGS)[number];

const EVERYBODY = new Uint8Array();

/** Of this process: a salt cannot be guessed, and stays the same when a runner is replaced. */
const SECRET = randomBytes(32);

declare module 'hono' {
  interface ContextVariableMap {
    /** Set for requests that a key let in. */
    cacheSalt: Uint8Array;
  }
}

/** Requests with the same salt share: 32 bytes that do not tell the key, or none. */
export function cacheSaltOf(sharing: CacheSharing, key: string): Uint8Array {
  return sharing === 'all' ? EVERYBODY : createHmac('sha256', SECRET).update(key).digest();
}

export function cacheSalt(c: Context): Uint8Array {
  return c.get('cacheSalt') ?? EVERYBODY;
}
