import { readFileSync } from 'node:fs';
import { release } from 'node:os';

/** What the kernel tells of processes, in /proc/PID/stat, and of its huge pages. It works on Linux, on one machine. */

/** The fields from the third on; undefined if there is no such process. */
function statOf(pid: number): string[] | undefined {
  const stat = kernelFile(`/proc/${pid}/stat`);
  // The second field is the program's name in parentheses and may hold anything. The third follows the last parenthesis.
  return stat?.slice(stat.lastIndexOf(')') + 2).split(' ');
}

/** The text of a file of the kernel's own, so that reading it does not wait for a disk; undefined if it cannot be read. */
export function kernelFile(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return undefined;
  }
}

/** The id with the start time of the process, because ids are reused. Undefined if the process does not run or is a zombie. */
export function identityOf(pid: number): string | undefined {
  const fields = statOf(pid);
  return fields === undefined || 'ZX'.includes(fields[0] ?? '') ? undefined : `${pid} ${fields[22 - 3]}`;
}

export function isRunning(identity: string): boolean {
  return identity === identityOf(Number.parseInt(identity, 10));
}

/** Clock ticks of the two counters below. USER_HZ is 100 on every Linux that Node runs on. */
const ticksPerSecond = 100;

/** The processor time of all threads of a process so far, in milliseconds, in steps of ten. Undefined if there is no such process. */
export function processorMsOf(pid: number): number | undefined {
  const fields = statOf(pid);
  if (fields === undefined) return undefined;
  const [userTicks, systemTicks] = [Number(fields[14 - 3]), Number(fields[15 - 3])];
  return ((userTicks + systemTicks) * 1000) / ticksPerSecond;
}

export const SHARED_PAGES = '/sys/kernel/mm/transparent_hugepage/shmem_enabled';

export interface HugePages {
  /** The kernel's setting in SHARED_PAGES; null: it has no huge pages. */
  readonly shared_setting: string | null;
  /** Whether the weights that runners share get huge pages. */
  readonly for_weights: boolean;
}

/**
 * Whether files in memory, such as the weights that runners share, get huge pages from this kernel.
 * root: the directory that holds /sys; kernel: release of the kernel. Tests replace both.
 */
export function hugePages(root = '', kernel = release()): HugePages {
  const setting = /\[(\w+)\]/.exec(kernelFile(`${root}${SHARED_PAGES}`) ?? '')?.[1] ?? null;
  // A runner asks for huge pages, and from Linux 6.1 on it gets them also where the setting is `never`.
  const [major = 0, minor = 0] = kernel.split('.').map((part) => Number.parseInt(part, 10));
  const isGivenAnyway = major > 6 || (major === 6 && minor >= 1);
  const isDenied = setting === null || setting === 'deny' || (setting === 'never' && !isGivenAnyway);
  return { shared_setting: setting, for_weights: !isDenied };
}
