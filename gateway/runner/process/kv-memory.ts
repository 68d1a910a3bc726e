/**
 * Memory for KV caches that outlive their runners. Node cannot make it: a runner program does, and holds it until its
 * descriptors have been opened here.
 */
import { close, constants, openSync } from 'node:fs';
import { escapeControls } from '../../system/printable.ts';
import { scrubEnvironment, startProgram } from '../../system/start-program.ts';

/** Starting a program takes milliseconds. */
const MAX_WAIT_MS = 10_000;
const MAX_OUTPUT_BYTES = 4096;

/** runner: path of the program. count: how many memories. Resolves with their descriptors. Rejects with a sentence. */
export type MakeKvMemory = (runner: string, count: number) => Promise<readonly number[]>;

export const makeKvMemory: MakeKvMemory = async (runner, count) => {
  const child = startProgram(runner, ['memory', '--count', String(count)], {
    stdin: 'pipe',
    reject: false,
    extendEnv: false,
    env: scrubEnvironment(process.env),
    timeout: MAX_WAIT_MS,
    killSignal: 'SIGKILL',
    maxBuffer: MAX_OUTPUT_BYTES,
  });
  const opened: number[] = [];
  try {
    const { pid } = child;
    if (pid !== undefined)
      for await (const line of child) {
        opened.push(openSync(`/proc/${pid}/fd/${Number(line)}`, constants.O_RDWR));
        if (opened.length === count) child.stdin.end();
      }
    if (opened.length === count) return opened;
    const { stderr, originalMessage, exitCode } = await child;
    throw new Error(stderr || originalMessage || `it exited with status ${exitCode}`);
  } catch (error) {
    closeKvMemory(opened);
    child.kill();
    const reason = escapeControls(error instanceof Error ? error.message : String(error));
    throw new Error(`${runner} memory made no memory for KV caches: ${reason}`);
  }
};

/** Freeing gigabytes takes the system a while, so it is not done on the event loop. */
export function closeKvMemory(descriptors: readonly number[]): void {
  for (const descriptor of descriptors) close(descriptor, () => {});
}
