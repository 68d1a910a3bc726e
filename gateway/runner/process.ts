/**
 * A runner as a process of the system: spawned with pipes and a scrubbed environment, killed, waited for. What the
 * pipes carry is client.ts's.
 */
import type { Readable, Writable } from 'node:stream';
import { execa } from 'execa';
import { scrubEnvironment } from './environment.ts';
import { escapeControls } from './printable.ts';
import { StderrReader } from './stderr.ts';

export interface RunnerCommand {
  readonly file: string;
  readonly args: readonly string[];
}

export interface RunnerExit {
  /** Exactly one of the three is set. */
  readonly code: number | undefined;
  readonly signal: string | undefined;
  /** Why there was never a process, as a sentence. */
  readonly spawnError: string | undefined;
}

export interface RunnerProcess {
  /** undefined if it could not be spawned. */
  readonly pid: number | undefined;
  readonly stdin: Writable;
  readonly stdout: Readable;
  /** Never rejects. The pipes may still hold what the runner said before. */
  readonly exited: Promise<RunnerExit>;
  /** stdout and stderr are read to their ends. A grandchild may hold them open for ever. */
  readonly outputClosed: Promise<unknown>;
  /** The last lines of stderr. */
  readonly stderrTail: string;
  /** Closes the pipes from this end, whatever is in them. */
  dropOutput(): void;
  /** Does nothing once the process is gone. */
  kill(signal: NodeJS.Signals): void;
}

export type Spawn = (command: RunnerCommand, onStderrLine: (line: string) => void) => RunnerProcess;

export const spawnRunner: Spawn = (command, onStderrLine) => new SystemProcess(command, onStderrLine);

class SystemProcess implements RunnerProcess {
  readonly pid: number | undefined;
  readonly stdin: Writable;
  readonly stdout: Readable;
  readonly exited: Promise<RunnerExit>;
  readonly outputClosed: Promise<unknown>;
  readonly #kill: (signal: NodeJS.Signals) => void;
  readonly #stderrPipe: Readable;
  readonly #stderr: StderrReader;

  constructor(command: RunnerCommand, onStderrLine: (line: string) => void) {
    // buffer: a runner streams for days. reject: an exit is a value here. cleanup: a runner must not outlive a gateway
    // that exits. forceKillAfterDelay: whoever stops a runner decides how long it may take.
    const child = execa(command.file, command.args, {
      stdin: 'pipe',
      stdout: 'pipe',
      stderr: 'pipe',
      buffer: false,
      encoding: 'buffer',
      reject: false,
      cleanup: true,
      forceKillAfterDelay: false,
      extendEnv: false,
      env: scrubEnvironment(process.env),
    });
    this.pid = child.pid;
    this.stdin = child.stdin;
    this.stdout = child.stdout;
    this.#stderrPipe = child.stderr;
    this.#kill = (signal) => child.kill(signal);
    this.exited = new Promise((resolve) => {
      // The event, because execa's own result also waits for pipes that a grandchild may hold open.
      child.once('exit', (code, signal) => {
        resolve({ code: code ?? undefined, signal: signal ?? undefined, spawnError: undefined });
      });
      void child.then((result) => {
        const spawnError = escapeControls(result.originalMessage ?? 'unknown reason');
        resolve({ code: undefined, signal: undefined, spawnError });
      });
    });
    this.outputClosed = Promise.all([closeOf(child.stdout), closeOf(child.stderr)]);
    this.#stderr = new StderrReader(onStderrLine, () => performance.now());
    child.stderr.on('data', (chunk: Uint8Array) => this.#stderr.push(chunk));
    child.stderr.on('end', () => this.#stderr.end());
  }

  get stderrTail(): string {
    return this.#stderr.tail;
  }

  dropOutput(): void {
    this.stdout.destroy();
    this.#stderrPipe.destroy();
  }

  kill(signal: NodeJS.Signals): void {
    this.#kill(signal);
  }
}

function closeOf(stream: Readable): Promise<void> {
  return new Promise((resolve) => stream.once('close', resolve));
}
