/**
 * Of a path in the cache that hub-cache.ts lays out, the repository's name without its owner; undefined for any other folder or file.
 * Here by itself: whoever reads a model file has no need of what checks the cache.
 */
export function repoOfSnapshot(path: string): string | undefined {
  return /(?:^|\/)models--[^/]+?--([^/]+)\/snapshots\/[0-9a-f]{40}\/?$/.exec(path)?.[1];
}
