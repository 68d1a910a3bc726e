/**
 * A runner as a process of the system: spawned with pipes and a scrubbed environment, killed, waited for. What the
 * pipes carry is client.ts's.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { PassThrough, type Readable, type Writable } from 'node:stream';
import { scrubEnvironment } from '../../system/environment.ts';
import { escapeControls } from '../../system/printable.ts';
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

type Exited = (exit: RunnerExit) => void;

class SystemProcess implements RunnerProcess {
  readonly pid: number | undefined;
  readonly stdin: Writable;
  readonly stdout: Readable;
  readonly exited: Promise<RunnerExit>;
  readonly outputClosed: Promise<unknown>;
  readonly #child: ChildProcess | undefined;
  readonly #stderrPipe: Readable;
  readonly #stderr: StderrReader;

  constructor(command: RunnerCommand, onStderrLine: (line: string) => void) {
    let settle: Exited = () => {};
    this.exited = new Promise((resolve) => (settle = resolve));
    this.#child = spawned(command, settle);
    this.pid = this.#child?.pid;
    // Without descriptors for them there are no pipes either: what stands in their place has ended.
    this.stdin = this.#child?.stdin ?? new PassThrough().destroy();
    this.stdout = this.#child?.stdout ?? new PassThrough().end();
    this.#stderrPipe = this.#child?.stderr ?? new PassThrough().end();
    this.outputClosed = Promise.all([closeOf(this.stdout), closeOf(this.#stderrPipe)]);
    this.#stderr = new StderrReader(onStderrLine, () => performance.now());
    this.#stderrPipe.on('data', (chunk: Uint8Array) => this.#onStderr(chunk));
    this.#stderrPipe.on('end', () => this.#stderr.end());
  }

  get stderrTail(): string {
    return this.#stderr.tail;
  }

  dropOutput(): void {
    this.stdout.destroy();
    this.#stderrPipe.destroy();
  }

  kill(signal: NodeJS.Signals): void {
    this.#child?.kill(signal);
  }

  #onStderr(chunk: Uint8Array): void {
    this.#stderr.push(chunk);
    const { pauseMs } = this.#stderr;
    if (pauseMs === 0 || this.#stderrPipe.isPaused()) return;
    this.#stderrPipe.pause();
    setTimeout(() => this.#stderrPipe.resume(), pauseMs);
  }
}

/** undefined if there is no process, and none was tried. onExit is called once, when there is none, or none any more. */
function spawned({ file, args }: RunnerCommand, onExit: Exited): ChildProcess | undefined {
  const fails = (error: unknown) => {
    const spawnError = escapeControls(error instanceof Error ? error.message : String(error));
    onExit({ code: undefined, signal: undefined, spawnError });
  };
  let child: ChildProcess;
  try {
    child = spawn(file, args, { stdio: 'pipe', env: scrubEnvironment(process.env) });
  } catch (error) {
    fails(error);
    return undefined;
  }
  // A runner must not outlive a gateway that exits.
  const killAtExit = () => child.kill('SIGKILL');
  process.on('exit', killAtExit);
  child.once('exit', (code, signal) => {
    process.off('exit', killAtExit);
    onExit({ code: code ?? undefined, signal: signal ?? undefined, spawnError: undefined });
  });
  child.on('error', (error) => {
    // Also of a signal that could not be sent, to one that lives.
    if (child.pid !== undefined) return;
    process.off('exit', killAtExit);
    fails(error);
  });
  return child;
}

function closeOf(stream: Readable): Promise<void> {
  return new Promise((resolve) => stream.once('close', resolve));
}
