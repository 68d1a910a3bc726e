import type { Context } from 'hono';

/**
 * Who shares what was computed for a prompt with whom. A prompt that is found in the cache is answered sooner, so that
 * sharing among keys lets the holder of one find out what the others ask.
 */
export const CACHE_SHARINGS = ['per-key', 'all'] as const;

export type CacheSharing = (typeof CACHE_SHARINGS)[number];

const EVERYBODY = new Uint8Array();

declare module 'hono' {
  interface ContextVariableMap {
    /** Set for requests that a key let in. */
    cacheSalt: Uint8Array;
  }
}

/** Requests with the same salt share: the digest of their key, or none. */
export function cacheSaltOf(sharing: CacheSharing, keyDigest: Uint8Array): Uint8Array {
  return sharing === 'all' ? EVERYBODY : keyDigest;
}

export function cacheSalt(c: Context): Uint8Array {
  return c.get('cacheSalt') ?? EVERYBODY;
}
