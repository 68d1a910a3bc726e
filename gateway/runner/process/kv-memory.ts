/**
 * Memory for a KV cache that outlives its runners. Node cannot make it: a runner program does, and holds it until its
 * descriptor has been opened here.
 */

import { close, constants, openSync } from 'node:fs';
import { messageOf } from '../../errors/thrown.ts';
import { escapeControls } from '../../system/printable.ts';
import { scrubEnvironment, startProgram } from '../../system/start-program.ts';

/** Starting a program takes milliseconds. */
const MAX_WAIT_MS = 10_000;
const MAX_OUTPUT_BYTES = 4096;

/** runner: path of the program. Resolves with the descriptor. Rejects with a sentence. */
export type MakeKvMemory = (runner: string) => Promise<number>;

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
  let opened: number | undefined;
  try {
    const { pid } = child;
    if (pid !== undefined)
      for await (const line of child) {
        opened ??= openSync(`/proc/${pid}/fd/${Number(line)}`, constants.O_RDWR);
        child.stdin.end();
      }
    if (opened !== undefined) return opened;
    const { stderr, originalMessage, exitCode } = await child;
    throw new Error(stderr || originalMessage || `it exited with status ${exitCode}`);
  } catch (error) {
    if (opened !== undefined) closeMemory(opened);
    child.kill();
    const reason = escapeControls(messageOf(error));
    throw new Error(`${runner} memory made no memory for KV caches: ${reason}`);
  }
};

/** Closes a file in memory. Freeing gigabytes takes the system a while, so it is not done on the event loop. */
export function closeMemory(descriptor: number): void {
  close(descriptor, () => {});
}
