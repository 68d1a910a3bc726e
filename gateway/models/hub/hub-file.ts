/** How models on a hub are named, and where the cache of them is. Reading a model loads this file, not the cache's code. */
import { homedir } from 'node:os';
import { join, resolve, sep } from 'node:path';
import { UsageError } from '../../errors/exit-code.ts';

export interface HubRepo {
  readonly owner: string;
  readonly repo: string;
}

/** A model on a hub: a folder, named `hf:owner/repo`, or a file in it, named `hf:owner/repo/file.gguf`. */
export interface HubModel extends HubRepo {
  /** Path in the repository, with slashes; undefined if the model is the repository's folder. */
  readonly path: string | undefined;
  readonly name: string;
}

export interface HubFile extends HubModel {
  readonly path: string;
}

const PREFIX = 'hf:';
const MAX_PATH_PARTS = 8;

export function isHubName(name: string): boolean {
  return name.startsWith(PREFIX);
}

/** Undefined for a malformed name. An accepted name cannot lead out of a folder that it is joined to. */
export function hubModelOf(name: string): HubModel | undefined {
  const [owner, repo, ...path] = name.slice(PREFIX.length).split('/');
  if (!isHubName(name) || !isPlainName(owner) || !isPlainName(repo)) return;
  if (path.length === 0) return repo.endsWith('.gguf') ? undefined : { owner, repo, path: undefined, name };
  if (!name.endsWith('.gguf') || path.length > MAX_PATH_PARTS || !path.every(isPlainName)) return;
  return { owner, repo, path: path.join('/'), name };
}

export function parseHubName(name: string): HubModel {
  const model = hubModelOf(name);
  if (model !== undefined) return model;
  throw new UsageError(
    `${JSON.stringify(name)} names no model of a hub: write hf:OWNER/REPO/FILE.gguf, or hf:OWNER/REPO for a folder of safetensors, each part of at most 96 letters, digits, dots, dashes and underscores.`,
  );
}

/** A file of the repository. path: its parts must be ones that cannot lead out of the repository. */
export function fileIn({ owner, repo }: HubRepo, path: string): HubFile {
  return { owner, repo, path, name: `${nameOf({ owner, repo })}/${path}` };
}

export function nameOf({ owner, repo }: HubRepo): string {
  return `${PREFIX}${owner}/${repo}`;
}

/** Whether the part is neither `..` nor a hidden file's name. */
function isPlainName(part: string | undefined): part is string {
  return part !== undefined && /^(?!\.)[A-Za-z0-9._-]{1,96}$/.test(part) && !part.includes('..');
}

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
  if (snapshots !== 'snapshots' || !isGitId(commit)) return undefined;
  const [kind, owner, ...name] = folder.split('--');
  return kind === 'models' && owner !== '' ? name.join('--') || undefined : undefined;
}

/** Whether the text has the form of a commit or of a blob's id in git. */
export function isGitId(text: string): boolean {
  return /^[0-9a-f]{40}$/.test(text);
}
