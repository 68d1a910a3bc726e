/**
 * A runner as an operating-system process: spawned with pipes and a scrubbed environment, killed, waited for. client.ts
 * speaks over the pipes.
 */

import { PassThrough, type Readable, type Writable } from 'node:stream';
import { kernelFile } from '../../system/kernel.ts';
import { escapeControls } from '../../system/printable.ts';
import { NoDescriptorsError } from '../../system/spawn-reserve.ts';
import { scrubEnvironment, startProgram } from '../../system/start-program.ts';
import { StderrReader } from './stderr.ts';

export interface RunnerCommand {
  readonly file: string;
  readonly args: readonly string[];
  /** Descriptors of the gateway that the runner inherits, from FIRST_PASSED on, in this order; none by default. */
  readonly descriptors?: readonly number[];
  /** What decides the packed weights. Set for runners that can share them with others of the same key. */
  readonly weightsKey?: string;
  /**
   * What decides the KV cache, but for its size. Set for runners whose cache may lie in memory that outlives them: the next runner goes
   * on with it if it has the same key.
   */
  readonly kvKey?: string;
}

/** The number that the first of RunnerCommand.descriptors has in the runner: those below are its pipes. */
const FIRST_PASSED = 3;

/** The command with one more descriptor, whose number in the runner is the value of this flag. */
export function passing(command: RunnerCommand, flag: string, descriptor: number): RunnerCommand {
  const { args, descriptors = [] } = command;
  return {
    ...command,
    args: [...args, `--${flag}`, String(FIRST_PASSED + descriptors.length)],
    descriptors: [...descriptors, descriptor],
  };
}

export interface RunnerExit {
  /** Exactly one of the three fields is set. */
  readonly code: number | undefined;
  readonly signal: string | undefined;
  /** Why the process could not be started, as a sentence. */
  readonly spawnError: string | undefined;
}

export interface RunnerProcess {
  /** undefined if the process could not be started. */
  readonly pid: number | undefined;
  readonly stdin: Writable;
  readonly stdout: Readable;
  /** Never rejects. The pipes may still hold what the runner wrote before its exit. */
  readonly exited: Promise<RunnerExit>;
  /** Settles when stdout and stderr are closed. A grandchild may hold them open for ever. */
  readonly outputClosed: Promise<unknown>;
  readonly stderrTail: string;
  /** Closes stdout and stderr at this end and drops what is in them. */
  dropOutput(): void;
  kill(signal: NodeJS.Signals): void;
}

export type Spawn = (command: RunnerCommand, onStderrLine: (line: string) => void) => RunnerProcess;

export const spawnRunner: Spawn = (command, onStderrLine) => {
  let child: ReturnType<typeof startRunner>;
  try {
    child = startRunner(command);
  } catch (error) {
    if (error instanceof NoDescriptorsError) return withoutProcess(error.message);
    throw error;
  }
  const { pid, stdin, stdout, stderr } = child;
  const lines = new StderrReader(onStderrLine, () => performance.now());
  stderr.on('end', () => lines.end());
  stderr.on('data', (chunk: Uint8Array) => {
    lines.push(chunk);
    const { pauseMs } = lines;
    if (pauseMs === 0 || stderr.isPaused()) return;
    stderr.pause();
    setTimeout(() => stderr.resume(), pauseMs);
  });
  const exited = new Promise<RunnerExit>((resolve) => {
    if (pid === undefined) void child.then(({ originalMessage }) => resolve(notStarted(originalMessage)));
    child.once('exit', (code, signal) =>
      resolve({ code: code ?? undefined, signal: signal ?? undefined, spawnError: undefined }),
    );
  });
  return {
    pid,
    stdin,
    stdout,
    exited,
    outputClosed: child,
    get stderrTail() {
      return lines.tail;
    },
    dropOutput: () => {
      stdout.destroy();
      stderr.destroy();
    },
    kill: (signal) => child.kill(signal),
  };
};

/** execa kills the runner when the gateway exits. Otherwise the session decides when it is killed. */
function startRunner({ file, args, descriptors = [] }: RunnerCommand) {
  // execa's types know only numbers of one digit.
  const stdio = ['pipe', 'pipe', 'pipe', ...(descriptors as readonly 9[])] as const;
  return startProgram(file, args, {
    stdio,
    buffer: false,
    encoding: 'buffer',
    reject: false,
    extendEnv: false,
    env: scrubEnvironment(process.env),
    killSignal: 'SIGKILL',
    forceKillAfterDelay: false,
  });
}

function notStarted(reason = 'the system gives no reason'): RunnerExit {
  return { code: undefined, signal: undefined, spawnError: escapeControls(reason) };
}

/** Stands for a runner for which there were no descriptors. Its streams have ended. */
function withoutProcess(reason: string): RunnerProcess {
  return {
    pid: undefined,
    stdin: new PassThrough().destroy(),
    stdout: new PassThrough().end(),
    exited: Promise.resolve(notStarted(reason)),
    outputClosed: Promise.resolve(),
    stderrTail: '',
    dropOutput: () => {},
    kill: () => {},
  };
}

/**
 * Number of processes in this control group that the kernel has killed because memory ran out. Read before and after a death,
 * it tells such a SIGKILL from one that somebody sent. Undefined where the system does not count, or does not let us read the
 * count.
 */
export function readOomKills(root = ''): number | undefined {
  const groups = kernelFile(`${root}/proc/self/cgroup`)?.split('\n') ?? [];
  for (const group of groups) {
    const [, controllers, path] = /^\d+:([^:]*):(.*)$/.exec(group) ?? [];
    if (path === undefined) continue;
    const isUnified = controllers === '';
    if (!isUnified && !controllers?.split(',').includes('memory')) continue;
    const file = isUnified ? `${path}/memory.events` : `memory${path}/memory.oom_control`;
    const count = /^oom_kill (\d+)$/m.exec(kernelFile(`${root}/sys/fs/cgroup/${file}`) ?? '')?.[1];
    if (count !== undefined) return Number(count);
  }
  return undefined;
}
