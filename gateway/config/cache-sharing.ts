/**
 * Who shares what was computed for a prompt with whom. A prompt that is found in the cache is answered sooner, so that
 * sharing among keys lets the holder of one find out what the others ask.
 */
export const CACHE_SHARINGS = ['per-key', 'all'] as const;

export type CacheSharing = (typeof CACHE_SHARINGS)[number];
