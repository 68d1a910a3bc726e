import { createHmac, randomBytes } from 'node:crypto';
import type { Context } from 'hono';
import type { CacheSharing } from '../../config/serve-settings.ts';
import type { GenerateRequest } from '../../runner/runner.ts';
import { ANONYMOUS, type Caller } from '../../system/caller.ts';
import type { KeyRight } from './api-keys.ts';

/** Identifies the sender of a request by its key. */

/** A gateway's digests of keys: 32 bytes that stand for a key and do not reveal it, since nobody else has the secret of the HMAC. */
export class KeyDigests {
  /** Stays the same while requests come, or a caller would be another one in the middle of a request. */
  #secret: Uint8Array = randomBytes(32);
  /** Is kept with the jobs, so that the next process knows their callers too. */
  #kept = this.#secret;

  /** Sets the secret that is kept with the jobs. areRequestsComing: callers that are known already keep their digests. */
  keep(secret: Uint8Array, areRequestsComing: boolean): void {
    this.#kept = secret;
    if (!areRequestsComing) this.#secret = secret;
  }

  of(key: string): Uint8Array {
    return createHmac('sha256', this.#secret).update(key).digest();
  }

  /** The same by the secret that is kept with the jobs. */
  keptOf(text: string): Uint8Array {
    return createHmac('sha256', this.#kept).update(text).digest();
  }
}

declare module 'hono' {
  interface ContextVariableMap {
    /** Set for requests with a valid key. */
    keyRight: KeyRight;
    keyDigest: Uint8Array;
    caller: Caller;
    /** Returns the key's digest by the secret that is kept with the jobs. */
    keptKeyDigest: () => Uint8Array;
    keyDigests: KeyDigests;
  }
}

/** Whose share of the server the request takes. Several keys may be one caller's, but each key has jobs of its own. */
export function sharerOf(c: Context): Caller {
  return (c.get('caller') as Caller | undefined) ?? ANONYMOUS;
}

/** The field of a log line that says whose request it is about; none where no keys are required. */
export function callerField(c: Context): { readonly caller?: string } {
  const caller = c.get('caller') as Caller | undefined;
  return caller === undefined ? {} : { caller: caller.name };
}

/**
 * Identifies whose jobs a request may find: equal for all requests with the same key, different for different keys, '' without a
 * key. The first name is the journal's, and the next process knows it; the other one is that of jobs which came before the journal
 * could be opened.
 */
export function callersOf(c: Context): readonly string[] {
  const digest = c.get('keyDigest') as Uint8Array | undefined;
  const kept = c.get('keptKeyDigest') as (() => Uint8Array) | undefined;
  if (digest === undefined || kept === undefined) return [''];
  return [...new Set([kept(), digest].map((each) => Buffer.from(each).toString('hex')))];
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

/**
 * What the sender of a request decides about the requests to a runner: what they share with others, whose they are, and which trace
 * they belong to.
 */
export function senderOf(c: Context): Pick<GenerateRequest, 'cacheSalt' | 'caller' | 'trace'> {
  const caller = c.get('caller') as Caller | undefined;
  const sender = { cacheSalt: c.get('cacheSalt') ?? EVERYBODY, ...(caller === undefined ? {} : { caller }) };
  const span = c.get('span');
  if (!span?.isRecording()) return sender;
  const { traceId, spanId } = span.spanContext();
  return { ...sender, trace: { traceId, spanId } };
}
