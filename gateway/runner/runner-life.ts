/**
 * One runner from its spawn to its death. Joins the process with the client that speaks to it, bounds every wait, and
 * reports the death once, when nothing of that runner is left.
 */
import { RunnerClient } from './client.ts';
import type { Death } from './exit-policy.ts';
import type { Failure, Heartbeat, Hello, Ready, Stats } from './messages.ts';
import { type RunnerCommand, RunnerProcess } from './process.ts';
import type { ProtocolError } from './protocol-error.ts';
import { settlesWithin } from './settles-within.ts';

export interface LifeLimits {
  /** From spawn to Hello, which comes before the model is opened. */
  readonly helloTimeoutMs: number;
  /** A load may be long, but not without progress. */
  readonly loadStallMs: number;
  /** The whole load, with progress or not. */
  readonly loadTimeoutMs: number;
  /** From a closed pipe to the exit, and from the exit to closed pipes. */
  readonly exitGraceMs: number;
  /** From the end of stdin to SIGTERM, and from there to SIGKILL. */
  readonly terminateAfterMs: number;
}

export const defaultLifeLimits: LifeLimits = {
  helloTimeoutMs: 10_000,
  loadStallMs: 30_000,
  loadTimeoutMs: 15 * 60_000,
  exitGraceMs: 5_000,
  terminateAfterMs: 5_000,
};

export interface LifeEvents {
  onHello(hello: Hello): void;
  /** Tensors that are ready, 0 to 1. */
  onLoadProgress(fraction: number): void;
  onReady(ready: Ready): void;
  /** Once a second while the runner serves. */
  onHeartbeat(heartbeat: Heartbeat): void;
  /** Likewise. */
  onStats(stats: Stats): void;
  /** First sign of the end: nothing can be asked of this runner any more. */
  onLost(): void;
  /** The last event. */
  onDied(death: Death): void;
  onStderrLine(line: string): void;
}

export class RunnerLife {
  readonly client: RunnerClient;
  readonly #process: RunnerProcess;
  readonly #limits: LifeLimits;
  readonly #events: LifeEvents;
  readonly #spawnedAt = performance.now();
  readonly #died: Promise<void>;
  #readyAt: number | undefined;
  #loadedBytes = 0;
  #failure: Failure | undefined;
  #verdict: Death['verdict'];
  #isLost = false;
  /** The one wait that is bounded at this moment. */
  #deadline: NodeJS.Timeout | undefined;

  constructor(command: RunnerCommand, limits: LifeLimits, events: LifeEvents) {
    this.#limits = limits;
    this.#events = events;
    this.#process = new RunnerProcess(command, (line) => events.onStderrLine(line));
    const { stdin, stdout } = this.#process;
    stdin.on('error', () => this.#lose());
    this.client = new RunnerClient(stdout, stdin, {
      onHello: (hello) => {
        if (this.#isLost) return;
        this.#armLoadDeadline();
        events.onHello(hello);
      },
      onLoadProgress: ({ loadedBytes, totalBytes }) => {
        if (this.#isLost) return;
        if (loadedBytes > this.#loadedBytes) this.#armLoadDeadline();
        this.#loadedBytes = loadedBytes;
        if (totalBytes > 0) events.onLoadProgress(Math.min(1, loadedBytes / totalBytes));
      },
      onReady: (ready) => {
        if (this.#isLost) return;
        clearTimeout(this.#deadline);
        this.#readyAt = performance.now();
        events.onReady(ready);
      },
      onHeartbeat: (heartbeat) => {
        if (!this.#isLost && this.#readyAt !== undefined) events.onHeartbeat(heartbeat);
      },
      onStats: (stats) => {
        if (!this.#isLost) events.onStats(stats);
      },
      onFailure: (failure) => {
        this.#failure = failure;
      },
      onClosed: (error) => this.#onClosed(error),
    });
    this.#arm(limits.helloTimeoutMs, () => {
      this.#condemn(
        'timeout',
        `The runner did not say Hello within ${limits.helloTimeoutMs} ms of its start.`,
      );
    });
    this.#died = this.#awaitDeath();
  }

  get pid(): number | undefined {
    return this.#process.pid;
  }

  get stderrTail(): string {
    return this.#process.stderrTail;
  }

  /** Ends the runner: politely once it serves, else at once, for then it holds nobody's work. Settles when it is dead. */
  async end(): Promise<void> {
    this.client.end();
    const { terminateAfterMs } = this.#limits;
    if (this.#readyAt !== undefined && (await settlesWithin(this.#died, terminateAfterMs))) return;
    this.#process.kill('SIGTERM');
    if (await settlesWithin(this.#died, terminateAfterMs)) return;
    this.#process.kill('SIGKILL');
    await this.#died;
  }

  #arm(delayMs: number, onElapsed: () => void): void {
    clearTimeout(this.#deadline);
    this.#deadline = setTimeout(onElapsed, delayMs);
  }

  #armLoadDeadline(): void {
    const { loadStallMs, loadTimeoutMs } = this.#limits;
    const leftMs = this.#spawnedAt + loadTimeoutMs - performance.now();
    this.#arm(Math.min(loadStallMs, leftMs), () => {
      const what =
        leftMs < loadStallMs
          ? `did not finish loading within ${loadTimeoutMs} ms`
          : `made no progress in loading for ${loadStallMs} ms`;
      this.#condemn('timeout', `The runner ${what}.`);
    });
  }

  #onClosed(error: ProtocolError | undefined): void {
    // A stream that ends inside a frame is how a crash looks, not a lie.
    if (error !== undefined && error.kind !== 'truncated') {
      this.#condemn(error.kind === 'version' ? 'version' : 'violation', error.message);
    } else {
      this.#lose();
    }
  }

  /** A pipe is closed: the exit must follow. */
  #lose(): void {
    if (this.#isLost) return;
    this.#isLost = true;
    const { exitGraceMs } = this.#limits;
    this.#arm(exitGraceMs, () => {
      this.#condemn('timeout', `The runner closed a pipe and did not exit within ${exitGraceMs} ms.`);
    });
    this.#events.onLost();
  }

  #condemn(kind: 'violation' | 'version' | 'timeout', sentence: string): void {
    this.#verdict ??= { kind, sentence };
    this.#process.kill('SIGKILL');
    this.#lose();
  }

  async #awaitDeath(): Promise<void> {
    const exit = await this.#process.exited;
    // What the runner said last, Failure above all, may still be in the pipes.
    if (!(await settlesWithin(this.#process.outputClosed, this.#limits.exitGraceMs)))
      this.#process.dropOutput();
    this.#isLost = true;
    clearTimeout(this.#deadline);
    this.#events.onDied({
      exit,
      verdict: this.#verdict,
      failure: this.#failure,
      stderrTail: this.#process.stderrTail,
      readyForMs: this.#readyAt === undefined ? undefined : performance.now() - this.#readyAt,
    });
  }
}
