import { randomUUID } from 'node:crypto';
import { linkSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { errorCodeOf } from '../errors/thrown.ts';
import { identityOf, isRunning } from './kernel.ts';

/**
 * A lock between processes: a file with the owner's process id and start time. The complete file is linked into place, so no
 * process reads it half written. A lock whose owner is dead is taken over. It works on Linux, among processes of one machine.
 */

const pollMs = 200;

/**
 * Calls `action` with the lock at `path`, for which it waits as long as the lock's owner lives. onWait is called once with the
 * owner's process id, if there is an owner to wait for.
 */
export async function withLock<Result>(
  path: string,
  onWait: (ownerPid: number) => void,
  action: () => Promise<Result>,
): Promise<Result> {
  const own = `${path}.${randomUUID()}`;
  writeFileSync(own, identityOf(process.pid) ?? `${process.pid} 0`);
  try {
    for (let hasWaited = false; !tryLink(own, path); ) {
      const owner = readOwner(path);
      if (owner === undefined) continue; // released in between
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
  try {
    return await action();
  } finally {
    rmSync(path, { force: true });
  }
}

/**
 * Removes the lock of a dead owner. Another process may have removed it first and taken the lock: the moved file is then the
 * lock of a living process, and is put back.
 */
function removeStale(path: string, own: string): void {
  const moved = `${own}.stale`;
  try {
    renameSync(path, moved);
  } catch (error) {
    if (errorCodeOf(error) === 'ENOENT') return;
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
    if (errorCodeOf(error) === 'EEXIST') return false;
    throw error;
  }
}

function readOwner(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    if (errorCodeOf(error) === 'ENOENT') return undefined;
    throw error;
  }
}
