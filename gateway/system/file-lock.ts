import { randomUUID } from 'node:crypto';
import { linkSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { identityOf, isRunning } from './process-identity.ts';

/**
 * A lock between processes: a file that holds the owner's process id and start time. It is linked into place complete,
 * so it never reads half written; a lock whose owner is dead is taken over. Linux, one machine.
 */

const pollMs = 200;

/**
 * Takes the lock at `path`, waiting as long as its owner lives. onWait is called once, with the owner's process id, when
 * there is somebody to wait for. Returns the function that gives the lock back.
 */
export async function lockFile(path: string, onWait: (ownerPid: number) => void): Promise<() => void> {
  const own = `${path}.${randomUUID()}`;
  writeFileSync(own, identityOf(process.pid) ?? `${process.pid} 0`);
  try {
    for (let hasWaited = false; !tryLink(own, path); ) {
      const owner = readOwner(path);
      if (owner === undefined) continue; // given back in between
      if (!isRunning(owner)) {
        removeStale(path, own);
        continue;
      }
      if (!hasWaited) onWait(Number.parseInt(owner, 10));
      hasWaited = true;
      await sleep(pollMs);
    }
  } finally {
    rmSync(own, { force: true });
  }
  return () => rmSync(path, { force: true });
}

/**
 * Moves the dead owner's file away. Somebody else may have done so first, and taken the lock: then what was moved is the
 * lock of a living process, and goes back.
 */
function removeStale(path: string, own: string): void {
  const moved = `${own}.stale`;
  try {
    renameSync(path, moved);
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return;
    throw error;
  }
  const owner = readOwner(moved);
  if (owner !== undefined && isRunning(owner)) tryLink(moved, path);
  rmSync(moved, { force: true });
}

function tryLink(from: string, to: string): boolean {
  try {
    linkSync(from, to);
    return true;
  } catch (error) {
    if (codeOf(error) === 'EEXIST') return false;
    throw error;
  }
}

function readOwner(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined;
    throw error;
  }
}

function codeOf(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined;
}

/** A rename is on the disk once its folder is. */
export async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder);
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
