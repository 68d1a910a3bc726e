/** Where the cache of Hugging Face's own tools is. Reading a model loads this file, and not the code of the cache. */
import { homedir } from 'node:os';
import { join, resolve, sep } from 'node:path';

/** Where the cache of Hugging Face's own tools is: HF_HUB_CACHE, or hub in HF_HOME, or in ~/.cache/huggingface. */
export function hubFolder(): string {
  const { HF_HUB_CACHE, HF_HOME, XDG_CACHE_HOME } = process.env;
  const home = HF_HOME || join(XDG_CACHE_HOME || join(homedir(), '.cache'), 'huggingface');
  return resolve(HF_HUB_CACHE || join(home, 'hub'));
}

/** Whether the path is the root or below it. Both must be absolute, and without links if links matter. */
export function isInside(root: string, path: string): boolean {
  return path === root || path.startsWith(root.endsWith(sep) ? root : root + sep);
}

/**
 * The repository's name, without its owner, of a snapshot folder in the hub's cache (hub-cache.ts); undefined for any other
 * path.
 */
export function repoOfSnapshot(path: string): string | undefined {
  const [folder = '', snapshots, commit = ''] = path.replace(/\/$/, '').split('/').slice(-3);
  if (snapshots !== 'snapshots' || !/^[0-9a-f]{40}$/.test(commit)) return undefined;
  const [kind, owner, ...name] = folder.split('--');
  return kind === 'models' && owner !== '' ? name.join('--') || undefined : undefined;
}
