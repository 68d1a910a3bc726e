import { readFileSync } from 'node:fs';

/** Of the two counters below, on every Linux that Node runs on (USER_HZ). */
const ticksPerSecond = 100;

/**
 * Processor time that a process has used so far, all its threads together, to the nearest ten milliseconds; undefined
 * when there is no such process, or the kernel does not tell.
 */
export function processorMsOf(pid: number): number | undefined {
  let stat: string;
  try {
    stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  } catch {
    return undefined;
  }
  // The second field is the program's name in parentheses, and may hold anything; the third follows the last of them.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const [userTicks, systemTicks] = [Number(fields[14 - 3]), Number(fields[15 - 3])];
  return ((userTicks + systemTicks) * 1000) / ticksPerSecond;
}
