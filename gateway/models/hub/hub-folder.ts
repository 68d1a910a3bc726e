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
