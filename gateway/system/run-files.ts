import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import * as z from 'zod';
import { errorCodeOf } from '../errors/thrown.ts';
import { identityOf, isRunning } from './kernel.ts';

/** A file for each running server, by which commands of the same user find it. */

const MAX_RUN_FILES = 1000;

const runSchema = z.object({ identity: z.string(), url: z.string() });

export interface RunningServer {
  readonly pid: number;
  /** The address in the form of --url. */
  readonly url: string;
}

/**
 * Writes this process's file (mode 0600), which is removed when the process exits, and removes the files of dead processes.
 * Throws file system errors.
 */
export function writeRunFile(folder: string, url: string): void {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  for (const name of namesIn(folder))
    if (readRun(folder, name) === undefined) rmSync(join(folder, name), { force: true });
  const path = join(folder, `${process.pid}.json`);
  const unfinished = `${path}.part`;
  writeFileSync(unfinished, JSON.stringify({ identity: identityOf(process.pid), url }), { mode: 0o600 });
  renameSync(unfinished, path);
  process.on('exit', () => rmSync(path, { force: true }));
}

/** The running servers by process id. Files of dead processes and other files are ignored. */
export function runningServers(folder: string): RunningServer[] {
  const servers = namesIn(folder).flatMap((name) => readRun(folder, name) ?? []);
  return servers.sort((a, b) => a.pid - b.pid);
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder)
      .filter((name) => /^\d+\.json$/.test(name))
      .slice(0, MAX_RUN_FILES);
  } catch (error) {
    if (errorCodeOf(error) === 'ENOENT') return [];
    throw error;
  }
}

function readRun(folder: string, name: string): RunningServer | undefined {
  try {
    const { identity, url } = runSchema.parse(JSON.parse(readFileSync(join(folder, name), 'utf8')));
    const pid = Number.parseInt(name, 10);
    return Number.parseInt(identity, 10) === pid && isRunning(identity) ? { pid, url } : undefined;
  } catch {
    // The file was removed meanwhile, or is not a run file.
    return undefined;
  }
}
