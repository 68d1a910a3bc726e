import { readFileSync } from 'node:fs';

/**
 * Process id and start time (field 22 of /proc/PID/stat), since ids are used again; undefined if it does not run, or is dead and
 * waits for its parent to ask. Linux, one machine.
 */
export function identityOf(pid: number): string | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const fieldsAfterName = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return 'ZX'.includes(fieldsAfterName[0] ?? '') ? undefined : `${pid} ${fieldsAfterName[19]}`;
  } catch {
    return undefined;
  }
}

/** Whether the process that had this identity is still the one with its id. */
export function isRunning(identity: string): boolean {
  return identity === identityOf(Number.parseInt(identity, 10));
}
