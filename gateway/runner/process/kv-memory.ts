/**
 * Memory for a KV cache that outlives its runners. Node cannot make it: a runner program does, and holds it until its
 * descriptor has been opened here.
 */

import { close, closeSync, constants, openSync } from 'node:fs';
import { messageOf } from '../../errors/thrown.ts';
import { escapeControls } from '../../system/printable.ts';
import { scrubEnvironment, startProgram } from '../../system/start-program.ts';

/** Starting a program takes milliseconds. */
const MAX_WAIT_MS = 10_000;
const MAX_OUTPUT_BYTES = 4096;

/** The memory by its descriptors: for runners of its place, and for other runners, which can only read. */
export interface KvMemory {
  readonly own: number;
  readonly reader: number;
}

/** runner: path of the program. Rejects with a sentence. */
export type MakeKvMemory = (runner: string) => Promise<KvMemory>;

export const makeKvMemory: MakeKvMemory = async (runner) => {
  const child = startProgram(runner, ['memory'], {
    stdin: 'pipe',
    reject: false,
    extendEnv: false,
    env: scrubEnvironment(process.env),
    timeout: MAX_WAIT_MS,
    killSignal: 'SIGKILL',
    maxBuffer: MAX_OUTPUT_BYTES,
  });
  let opened: KvMemory | undefined;
  try {
    const { pid } = child;
    if (pid !== undefined)
      for await (const line of child) {
        opened ??= open(`/proc/${pid}/fd/${Number(line)}`);
        child.stdin.end();
      }
    if (opened !== undefined) return opened;
    const { stderr, originalMessage, exitCode } = await child;
    throw new Error(stderr || originalMessage || `it exited with status ${exitCode}`);
  } catch (error) {
    if (opened !== undefined) for (const descriptor of Object.values(opened)) void closeMemory(descriptor);
    child.kill();
    const reason = escapeControls(messageOf(error));
    throw new Error(`${runner} memory made no memory for KV caches: ${reason}`);
  }
};

function open(path: string): KvMemory {
  const own = openSync(path, constants.O_RDWR);
  try {
    return { own, reader: openSync(path, constants.O_RDONLY) };
  } catch (error) {
    closeSync(own);
    throw error;
  }
}

/**
 * Closes a file in memory. Freeing gigabytes takes the system up to seconds, so it is not done on the event loop. Settles when
 * the memory is free, unless another process has the file too.
 */
export function closeMemory(descriptor: number): Promise<void> {
  return new Promise((resolve) => close(descriptor, () => resolve()));
}
