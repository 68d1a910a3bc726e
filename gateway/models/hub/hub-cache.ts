/**
 * The cache of Hugging Face's own tools, in their layout: models--OWNER--REPO with blobs/HASH, snapshots/COMMIT/FILE (a link
 * to its blob) and refs/main (the commit of main when it was last fetched). Runnel finds what these tools have fetched, and
 * they find what Runnel has fetched.
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
import { dirname, join, relative, resolve } from 'node:path';
import { filesOf } from '../huggingface/folder-files.ts';
import { type HubRepo, hubFolder, isGitId, isInside } from './hub-file.ts';

export class HubCache {
  readonly #root: string;
  readonly #repoName: string;

  constructor({ owner, repo }: HubRepo, root = hubFolder()) {
    this.#root = root;
    this.#repoName = `models--${owner}--${repo}`;
  }

  /** The path of a file at the commit in refs/main; undefined if it has not been fetched. */
  findFile(path: string): string | undefined {
    const commit = this.#main();
    const found = commit === undefined ? undefined : this.snapshotPath(commit, path);
    return found !== undefined && this.#isOwn(found) ? found : undefined;
  }

  /** The folder of the commit in refs/main; undefined unless every file of the model is there. */
  findFolder(): string | undefined {
    const commit = this.#main();
    if (commit === undefined) return undefined;
    const folder = this.snapshotPath(commit);
    const files = filesOf(folder);
    return files?.every((name) => this.#isOwn(join(folder, name))) ? folder : undefined;
  }

  blobPath(hash: string): string {
    return this.#path('blobs', hash);
  }

  /** The bytes of a blob that have arrived. The name differs from other tools', which may be fetching the same blob. */
  partPath(hash: string): string {
    return `${this.blobPath(hash)}.runnel-part`;
  }

  lockPath(hash: string): string {
    return inside(this.#root, '.locks', this.#repoName, `${hash}.runnel-lock`);
  }

  snapshotPath(commit: string, path = ''): string {
    return this.#path('snapshots', commit, path);
  }

  prepare(hash: string): void {
    for (const path of [this.blobPath(hash), this.lockPath(hash)])
      mkdirSync(dirname(path), { recursive: true });
  }

  /** Links the file in the snapshot to its blob. Returns the file's path. */
  link(hash: string, commit: string, file: string): string {
    const path = this.snapshotPath(commit, file);
    replace(path, (temporary) => symlinkSync(relative(dirname(path), this.blobPath(hash)), temporary));
    return path;
  }

  /** Records this commit as the current one of main. */
  setMain(commit: string): void {
    replace(this.#path('refs', 'main'), (temporary) => writeFileSync(temporary, commit));
  }

  #main(): string | undefined {
    try {
      const commit = readFileSync(this.#path('refs', 'main'), 'utf8').trim();
      return isGitId(commit) ? commit : undefined;
    } catch {
      return undefined;
    }
  }

  /** Whether the path leads to a file of this repository. A link may not lead anywhere else. */
  #isOwn(path: string): boolean {
    try {
      return isInside(realpathSync(this.#path()), realpathSync(path));
    } catch {
      return false;
    }
  }

  #path(...parts: readonly string[]): string {
    return inside(this.#root, this.#repoName, ...parts);
  }
}

/** Joins the parts to the root. The callers have checked the parts already; this is a second check. */
function inside(root: string, ...parts: readonly string[]): string {
  const path = resolve(root, ...parts);
  if (!isInside(root, path)) throw new Error(`${path} is outside of ${root}.`);
  return path;
}

/** Writes under a temporary name and renames, so that readers see the old file or the new one. */
function replace(path: string, write: (temporary: string) => void): void {
  const temporary = `${path}.tmp-${process.pid}`;
  mkdirSync(dirname(path), { recursive: true });
  rmSync(temporary, { force: true });
  write(temporary);
  renameSync(temporary, path);
}
