import { createHmac, randomBytes } from 'node:crypto';
import type { Context } from 'hono';
import type { CacheSharing } from '../../config/cache-sharing.ts';
import type { KeyRight } from './api-keys.ts';

/** Who sent a request, as far as its key tells. */

/** What stands for a key cannot be guessed, and stays the same when a runner is replaced. */
let secret: Uint8Array = randomBytes(32);

/** In place of one of this process alone: where jobs are kept, their callers are known in the next process too. */
export function setCallerSecret(kept: Uint8Array): void {
  secret = kept;
}

declare module 'hono' {
  interface ContextVariableMap {
    /** Set for requests that a key let in. */
    keyRight: KeyRight;
    keyDigest: Uint8Array;
  }
}

/** 32 bytes that stand for a key and do not tell it. */
export function digestOf(key: string): Uint8Array {
  return createHmac('sha256', secret).update(key).digest();
}

/** The same for all requests with one key, another for each key; without keys all are one. */
export function callerOf(c: Context): string {
  const digest = c.get('keyDigest') as Uint8Array | undefined;
  return digest === undefined ? '' : Buffer.from(digest).toString('hex');
}

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
