/**
 * The cache that Hugging Face's own tools use, in their layout: models--OWNER--REPO with blobs/SHA256,
 * snapshots/COMMIT/FILE (a link to its blob) and refs/main (the commit that main was). What they have fetched is found
 * here, and the other way round.
 */
import {
  mkdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { homedir } from 'node:os';
import { dirname, join, relative, resolve, sep } from 'node:path';
import type { HubFile } from './hub-file.ts';

/** HF_HUB_CACHE, or hub in HF_HOME, or in ~/.cache/huggingface. */
export function hubFolder(): string {
  const { HF_HUB_CACHE, HF_HOME, XDG_CACHE_HOME } = process.env;
  const home = HF_HOME || join(XDG_CACHE_HOME || join(homedir(), '.cache'), 'huggingface');
  return resolve(HF_HUB_CACHE || join(home, 'hub'));
}

export class HubCache {
  readonly #root: string;
  readonly #repoName: string;
  readonly #file: HubFile;

  constructor(file: HubFile, root = hubFolder()) {
    this.#root = root;
    this.#repoName = `models--${file.owner}--${file.repo}`;
    this.#file = file;
  }

  /** The file at the commit that main was when it was last fetched; undefined if it has not been. */
  find(): string | undefined {
    let commit: string;
    try {
      commit = readFileSync(this.#path('refs', 'main'), 'utf8').trim();
    } catch {
      return undefined;
    }
    if (!isCommit(commit)) return undefined;
    const path = this.snapshotPath(commit);
    try {
      // A link may lead to a blob of this repository, and nowhere else.
      return isInside(realpathSync(this.#path()), realpathSync(path)) ? path : undefined;
    } catch {
      return undefined;
    }
  }

  blobPath(sha256: string): string {
    return this.#path('blobs', sha256);
  }

  /** What has arrived of a blob. Not the name other tools use: they may be fetching it too. */
  partPath(sha256: string): string {
    return `${this.blobPath(sha256)}.runnel-part`;
  }

  lockPath(sha256: string): string {
    return inside(this.#root, '.locks', this.#repoName, `${sha256}.runnel-lock`);
  }

  snapshotPath(commit: string): string {
    return this.#path('snapshots', commit, this.#file.path);
  }

  /** Makes the folders that a blob, its lock and its link need. */
  prepare(sha256: string, commit: string): void {
    const paths = [this.blobPath(sha256), this.lockPath(sha256), this.snapshotPath(commit)];
    for (const path of [...paths, this.#path('refs', 'main')]) mkdirSync(dirname(path), { recursive: true });
  }

  /** Gives the blob its name in the snapshot, and says that this is what main is now. Returns the path. */
  link(sha256: string, commit: string): string {
    const path = this.snapshotPath(commit);
    replace(path, (temporary) => symlinkSync(relative(dirname(path), this.blobPath(sha256)), temporary));
    replace(this.#path('refs', 'main'), (temporary) => writeFileSync(temporary, commit));
    return path;
  }

  #path(...parts: readonly string[]): string {
    return inside(this.#root, this.#repoName, ...parts);
  }
}

export function isCommit(text: string): boolean {
  return /^[0-9a-f]{40}$/.test(text);
}

/** The parts joined to the root. Their makers have checked them; this is the second lock on the same door. */
function inside(root: string, ...parts: readonly string[]): string {
  const path = resolve(root, ...parts);
  if (!isInside(root, path)) throw new Error(`${path} is outside of ${root}.`);
  return path;
}

function isInside(root: string, path: string): boolean {
  return path === root || path.startsWith(root.endsWith(sep) ? root : root + sep);
}

/** Writes under another name first, so that whoever reads sees the old or the new. */
function replace(path: string, write: (temporary: string) => void): void {
  const temporary = `${path}.tmp-${process.pid}`;
  rmSync(temporary, { force: true });
  write(temporary);
  renameSync(temporary, path);
}
