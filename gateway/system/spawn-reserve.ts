/**
 * File descriptors for the next start of a program. Node reports a start that runs out of them too late for its caller
 * (start-program.ts), so a program is only started after this many descriptors were seen to be free.
 */
import { closeSync, openSync } from 'node:fs';

/**
 * The most that a start takes: both ends of three pipes and of an IPC channel, and two by which libuv hears of a failed exec.
 * Two more are for files that other threads open meanwhile.
 */
export const spawnDescriptors = 12;

/** There are too few free descriptors for another process. */
export class NoDescriptorsError extends Error {
  override readonly name = 'NoDescriptorsError';

  constructor(cause: unknown) {
    const advice = 'raise the limit of open files (ulimit -n, LimitNOFILE=)';
    super(`no file descriptors are free for another process; ${advice}`, { cause });
  }
}

const held: number[] = [];
let isKept = false;

/** Holds the descriptors from now on whenever no program is being started, so that nothing else in this process takes them. */
export function keepSpawnReserve(): void {
  isKept = true;
  takeAll();
}

/** Calls the function while the descriptors are free. Throws NoDescriptorsError if they are not there. */
export function withSpawnReserve<Result>(start: () => Result): Result {
  const fault = takeAll();
  for (const descriptor of held.splice(0)) closeSync(descriptor);
  if (fault !== undefined) throw new NoDescriptorsError(fault);
  try {
    return start();
  } finally {
    if (isKept) takeAll();
  }
}

/** Returns why fewer are held than wanted; undefined if all of them are. */
function takeAll(): unknown {
  try {
    while (held.length < spawnDescriptors) held.push(openSync('/dev/null', 'r'));
    return undefined;
  } catch (error) {
    return error;
  }
}
