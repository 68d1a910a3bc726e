/**
 * One runner from its spawn to its death. Joins the process with the client that speaks to it, bounds every wait, and
 * reports the death once, when nothing of that runner is left.
 */

import type { Clock, Timer } from '../../system/clock.ts';
import { settlesWithin } from '../../system/settles-within.ts';
import type { RunnerCommand, RunnerProcess, Spawn } from '../process/process.ts';
import { type ClientEvents, RunnerClient } from '../protocol/client.ts';
import type { Failure, Heartbeat, Hello, Phase, Ready, Stats } from '../protocol/messages.ts';
import type { ProtocolError } from '../protocol/protocol-error.ts';
import { sendCanary } from './canary.ts';
import type { Death, VerdictKind } from './exit-policy.ts';
import type { StepTimes } from './step-times.ts';
import { defaultWatchdogLimits, Watchdog, type WatchdogLimits } from './watchdog.ts';

export interface SessionLimits extends WatchdogLimits {
  /** From spawn to Hello, which comes before the model is opened. */
  readonly helloTimeoutMs: number;
  /** A load may be long, but not without progress. */
  readonly loadStallMs: number;
  /** The whole load, with progress or not. */
  readonly loadTimeoutMs: number;
  /** From Ready to the canary's token: one step, with weights that may still be on the disk. */
  readonly canaryTimeoutMs: number;
  /** From a closed pipe to the exit, and from the exit to closed pipes. */
  readonly exitGraceMs: number;
  /** From SIGABRT, which leaves a core where the system is set to, to SIGKILL. */
  readonly abortGraceMs: number;
  /** From the end of stdin to SIGTERM, and from there to SIGKILL. */
  readonly terminateAfterMs: number;
}

export const defaultSessionLimits: SessionLimits = {
  ...defaultWatchdogLimits,
  helloTimeoutMs: 10_000,
  loadStallMs: 30_000,
  loadTimeoutMs: 15 * 60_000,
  canaryTimeoutMs: 5 * 60_000,
  exitGraceMs: 5_000,
  abortGraceMs: 2_000,
  terminateAfterMs: 2_000,
};

/** What a session needs of the world. */
export interface SessionSupport {
  readonly spawn: Spawn;
  readonly clock: Clock;
  readonly limits: SessionLimits;
  readonly stepTimes: StepTimes;
  /** Counts the processes that the kernel killed for want of memory; undefined: it cannot be known. */
  readonly oomKills: () => number | undefined;
  /** What the model file says; undefined: it is not known. */
  readonly contextLength: () => number | undefined;
}

export interface SessionEvents {
  onHello(hello: Hello): void;
  /** Tensors that are ready, 0 to 1. */
  onLoadProgress(fraction: number): void;
  /** It takes requests; after the canary's answer, if there is one. */
  onReady(ready: Ready): void;
  /** Once a second while the runner serves. */
  onHeartbeat(heartbeat: Heartbeat): void;
  /** Likewise. */
  onStats(stats: Stats): void;
  /** A cancelled request is held no longer. */
  onLetGo(): void;
  /** First sign of the end: nothing can be asked of this runner any more. */
  onLost(): void;
  /** The last event. */
  onDied(death: Death): void;
  onStderrLine(line: string): void;
  /** What the runner said met a fault of the gateway. The runner is ended for it, since nobody knows what it is told now. */
  onInternalError(error: unknown): void;
}

export class RunnerSession {
  readonly client: RunnerClient;
  readonly #process: RunnerProcess;
  readonly #support: SessionSupport;
  readonly #events: SessionEvents;
  readonly #needsCanary: boolean;
  readonly #spawnedAt: number;
  readonly #oomKillsBefore: number | undefined;
  readonly #died: Promise<void>;
  #watchdog: Watchdog | undefined;
  #readyAt: number | undefined;
  #loadedBytes = 0;
  #phase: Phase | undefined;
  #step = 0;
  #failure: Failure | undefined;
  #verdict: Death['verdict'];
  #isLost = false;
  #hasExited = false;
  /** The one wait that is bounded at this moment. */
  #deadline: Timer | undefined;

  /** needsCanary: it must show that it can compute before it is ready. */
  constructor(command: RunnerCommand, needsCanary: boolean, support: SessionSupport, events: SessionEvents) {
    const { limits, clock, oomKills, spawn } = support;
    this.#support = support;
    this.#events = events;
    this.#needsCanary = needsCanary;
    this.#spawnedAt = clock.now();
    this.#oomKillsBefore = oomKills();
    this.#process = spawn(command, (line) => events.onStderrLine(line));
    const { stdin, stdout } = this.#process;
    stdin.on('error', () => this.#lose());
    const heard: ClientEvents = {
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
        if (!this.#isLost) this.#onLoaded(ready);
      },
      onHeartbeat: (heartbeat) => {
        this.#phase = heartbeat.phase;
        this.#watchdog?.onHeartbeat(heartbeat);
        if (!this.#isLost && this.#readyAt !== undefined) events.onHeartbeat(heartbeat);
      },
      onStep: (step) => {
        this.#step = step;
        this.#watchdog?.onStep(step);
      },
      onLetGo: () => events.onLetGo(),
      onStats: (stats) => {
        if (!this.#isLost && this.#readyAt !== undefined) events.onStats(stats);
      },
      onFailure: (failure) => {
        this.#failure = failure;
      },
      onClosed: (error) => this.#onClosed(error),
    };
    this.client = new RunnerClient(stdout, stdin, heard, () => clock.now());
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
    const { terminateAfterMs } = this.#support.limits;
    if (this.#readyAt !== undefined && (await this.#diesWithin(terminateAfterMs))) return;
    this.#process.kill('SIGTERM');
    if (await this.#diesWithin(terminateAfterMs)) return;
    this.#process.kill('SIGKILL');
    await this.#died;
  }

  #diesWithin(timeoutMs: number): Promise<boolean> {
    return settlesWithin(this.#died, timeoutMs, this.#support.clock);
  }

  #arm(delayMs: number, ring: () => void): void {
    this.#deadline?.cancel();
    this.#deadline = this.#support.clock.after(delayMs, ring);
  }

  #armLoadDeadline(): void {
    const { loadStallMs, loadTimeoutMs } = this.#support.limits;
    const leftMs = this.#spawnedAt + loadTimeoutMs - this.#support.clock.now();
    this.#arm(Math.min(loadStallMs, leftMs), () => {
      const what =
        leftMs < loadStallMs
          ? `did not finish loading within ${loadTimeoutMs} ms`
          : `made no progress in loading for ${loadStallMs} ms`;
      this.#condemn('timeout', `The runner ${what}.`);
    });
  }

  #onLoaded(ready: Ready): void {
    const { limits, stepTimes: times, clock, contextLength } = this.#support;
    this.#deadline?.cancel();
    const mostTokens = contextLength() ?? Number.POSITIVE_INFINITY;
    if (ready.maxModelLen > mostTokens) {
      const claim = `The runner says that its context holds ${ready.maxModelLen} tokens`;
      this.#condemn('violation', `${claim}; the model file allows ${mostTokens}.`);
      return;
    }
    const hasWork = () => this.client.owesTokens;
    const watch = { limits, times, maxStepRows: ready.maxNumBatchedTokens, clock, hasWork };
    this.#watchdog = new Watchdog(watch, {
      onHung: (sentence) => this.#abort('hung', sentence),
      onSilent: (sentence) => this.#abort('silent', sentence),
    });
    if (!this.#needsCanary) {
      this.#onUsable(ready);
      return;
    }
    const { canaryTimeoutMs } = limits;
    this.#arm(canaryTimeoutMs, () => {
      this.#condemn('canary', `The runner did not answer its first request within ${canaryTimeoutMs} ms.`);
    });
    sendCanary(this.client, {
      onAnswered: () => {
        if (!this.#isLost) this.#onUsable(ready);
      },
      onRefused: (sentence) => this.#condemn('canary', sentence),
    });
  }

  #onUsable(ready: Ready): void {
    this.#deadline?.cancel();
    this.#readyAt = this.#support.clock.now();
    this.#events.onReady(ready);
  }

  #onClosed(error: ProtocolError | undefined): void {
    // A stream that ends inside a frame is how a crash looks, not a lie.
    if (error !== undefined && error.kind !== 'truncated') {
      if (error.kind === 'internal') this.#events.onInternalError(error.cause);
      const isOfItsOwn = error.kind === 'version' || error.kind === 'internal';
      this.#condemn(isOfItsOwn ? error.kind : 'violation', error.message);
    } else {
      this.#lose();
    }
  }

  /** A pipe is closed: the exit must follow. */
  #lose(): void {
    if (this.#isLost) return;
    this.#isLost = true;
    this.#watchdog?.stop();
    if (!this.#hasExited) this.#armExitDeadline();
    this.#events.onLost();
  }

  #armExitDeadline(): void {
    const { exitGraceMs } = this.#support.limits;
    this.#arm(exitGraceMs, () => {
      this.#condemn('timeout', `The runner closed a pipe and did not exit within ${exitGraceMs} ms.`);
    });
  }

  #condemn(kind: Exclude<VerdictKind, 'hung' | 'silent'>, sentence: string): void {
    this.#verdict ??= { kind, sentence };
    this.#process.kill('SIGKILL');
    this.#lose();
  }

  /** It hangs: where, a core can tell, so it gets the chance to leave one. */
  #abort(kind: 'hung' | 'silent', sentence: string): void {
    this.#verdict ??= { kind, sentence };
    this.#process.kill('SIGABRT');
    this.#lose();
    this.#arm(this.#support.limits.abortGraceMs, () => this.#process.kill('SIGKILL'));
  }

  async #awaitDeath(): Promise<void> {
    const exit = await this.#process.exited;
    const { limits, clock, oomKills } = this.#support;
    this.#hasExited = true;
    this.#deadline?.cancel();
    // A grandchild may hold the pipes open, and what is written into them now nobody reads.
    this.#lose();
    // What the runner said last, Failure above all, may still be in the pipes.
    const read = Promise.all([this.#process.outputClosed, this.client.closed]);
    if (!(await settlesWithin(read, limits.exitGraceMs, clock))) {
      this.#process.dropOutput();
      this.client.close();
    }
    this.#events.onDied({
      exit,
      verdict: this.#verdict,
      failure: this.#failure,
      stderrTail: this.#process.stderrTail,
      readyForMs: this.#readyAt === undefined ? undefined : clock.now() - this.#readyAt,
      phase: this.#phase,
      step: this.#step,
      isOutOfMemory: (oomKills() ?? 0) > (this.#oomKillsBefore ?? 0),
    });
  }
}
