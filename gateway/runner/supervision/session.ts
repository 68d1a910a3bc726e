/**
 * One runner from its spawn to its death. The session joins the process with the client that speaks to it, bounds every wait,
 * and reports the death once, when nothing of that runner is left.
 */
import { type Clock, settlesWithin, type Timer } from '../../system/clock.ts';
import type { RunnerCommand, RunnerExit, RunnerProcess, Spawn } from '../process/process.ts';
import { RunnerClient } from '../protocol/client.ts';
import type { ProtocolError } from '../protocol/frame.ts';
import type { Failure, Notice, Phase, Ready } from '../protocol/from-runner.ts';
import type { RequestSink } from '../protocol/sent-requests.ts';
import type { Embed, Generate } from '../protocol/to-runner.ts';
import { isEncoder, neutralSampling } from '../runner.ts';
import type { Death, VerdictKind } from './exit-policy.ts';
import { maxDyingMs } from './kept-cache.ts';
import { defaultWatchdogLimits, type StepTimes, Watchdog, type WatchdogLimits } from './watchdog.ts';

export interface SessionLimits extends WatchdogLimits {
  /** From spawn to Hello, which the runner sends before it opens the model. */
  readonly helloTimeoutMs: number;
  /** The longest time without progress while the model loads. */
  readonly loadStallMs: number;
  /** The longest time for the whole load, from the spawn on. */
  readonly loadTimeoutMs: number;
  /** From Ready to the canary's token. The canary is one step, but the weights may still be on the disk. */
  readonly canaryTimeoutMs: number;
  /** From a closed pipe to the exit, and from the exit to closed pipes. */
  readonly exitGraceMs: number;
  /** From SIGABRT to SIGKILL. SIGABRT leaves a core where the system is configured for it. */
  readonly abortGraceMs: number;
  /** From the end of stdin to SIGTERM, and from SIGTERM to SIGKILL. */
  readonly terminateAfterMs: number;
  /** From SIGKILL to when a process that the kernel does not end is left to it; longer than maxDyingMs, so that its memory is dropped. */
  readonly killedGraceMs: number;
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
  killedGraceMs: maxDyingMs + 1_000,
};

export interface SessionSupport {
  readonly spawn: Spawn;
  readonly clock: Clock;
  readonly limits: SessionLimits;
  readonly stepTimes: StepTimes;
  /** Counts the processes that the kernel's OOM killer has killed; undefined: unknown. */
  readonly oomKills: () => number | undefined;
  /** Context length by the model file, in tokens; undefined: unknown. */
  readonly contextLength: () => number | undefined;
}

export interface SessionEvents {
  /** What the runner says of itself; heartbeats and statistics only while it serves. */
  onNotice(notice: Exclude<Notice, Ready | Failure>): void;
  /** The runner takes requests. If it needs a canary, the canary has been answered. */
  onReady(ready: Ready): void;
  onReleased(): void;
  /** The first sign of the end: the runner accepts no more frames. */
  onLost(): void;
  onDied(death: Death): void;
  onStderrLine(line: string): void;
  /**
   * The gateway threw while it handled a frame. The session then ends the runner, because its view of the runner is no longer
   * known to be right.
   */
  onInternalError(error: unknown): void;
}

/**
 * The first request of a runner that comes after a crash: one token of a prompt of one token, before the runner gets
 * anybody's stream. It costs a step of one row. Without it, a runner that can compute nothing would be blamed on its
 * requests.
 */
const canary: Omit<Generate, 'requestId'> = {
  tokenIds: [0],
  numEmitted: 0,
  maxTokens: 1,
  minTokens: 0,
  stopIds: [],
  sampling: { ...neutralSampling, temperature: 0, seed: 0n },
  cacheSalt: new Uint8Array(),
};

/** The same for a model that writes no text. */
const encodersCanary: Omit<Embed, 'requestId'> = {
  tokenIds: [0],
  pooling: 'cls',
  cacheSalt: new Uint8Array(),
};

export class RunnerSession {
  readonly client: RunnerClient;
  readonly #process: RunnerProcess;
  readonly #support: SessionSupport;
  readonly #events: SessionEvents;
  readonly #needsCanary: boolean;
  readonly #spawnedAt: number;
  readonly #oomKillsBefore: number | undefined;
  readonly #died: Promise<void>;
  #leave: () => void = () => {};
  #leaveTimer: Timer | undefined;
  #watchdog: Watchdog | undefined;
  #readyAt: number | undefined;
  #loadedBytes = 0;
  /** The runner's phase and step, as last heard; a Death reports them. */
  #phase: Phase | undefined;
  #step = 0;
  /** Outputs of all steps, the canary's included. */
  #numOutputs = 0;
  #failure: Failure | undefined;
  #verdict: Death['verdict'];
  #isLost = false;
  #hasExited = false;
  /** The timer of the one bounded wait under way. */
  #deadline: Timer | undefined;

  /** needsCanary: the runner must answer a request of one token before it is ready. */
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
    const heard = {
      onNotice: (notice: Notice) => this.#onNotice(notice),
      onStep: (step: number, numOutputs: number) => {
        this.#step = step;
        this.#numOutputs += numOutputs;
        this.#watchdog?.onStep(step);
      },
      onReleased: () => events.onReleased(),
      onClosed: (error: ProtocolError | undefined) => this.#onClosed(error),
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

  /**
   * Ends the runner. One that serves gets time to finish its step; one that does not holds nobody's work, and gets SIGTERM at
   * once. Settles when it is dead.
   */
  async end(): Promise<void> {
    this.client.end();
    const { terminateAfterMs } = this.#support.limits;
    if (this.#readyAt !== undefined && (await this.#diesWithin(terminateAfterMs))) return;
    this.#process.kill('SIGTERM');
    if (await this.#diesWithin(terminateAfterMs)) return;
    this.#kill();
    await this.#died;
  }

  /** SIGKILL ends every process but one that the kernel itself holds, for example at a device that does not answer. */
  #kill(): void {
    this.#process.kill('SIGKILL');
    const { clock, limits } = this.#support;
    this.#leaveTimer ??= clock.after(limits.killedGraceMs, () => {
      const still = `Process ${this.pid} is still there ${limits.killedGraceMs} ms after SIGKILL, and is left to the system.`;
      const { kind, sentence } = this.#verdict ?? { kind: 'timeout', sentence: 'The runner did not end.' };
      this.#verdict = { kind, sentence: `${sentence} ${still}` };
      this.#leave();
    });
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

  #onNotice(notice: Notice): void {
    if (notice.type === 'failure') this.#failure = notice;
    if (notice.type === 'heartbeat') {
      this.#phase = notice.phase;
      this.#watchdog?.onHeartbeat(notice);
    }
    if (this.#isLost || notice.type === 'failure') return;
    switch (notice.type) {
      case 'ready':
        this.#onLoaded(notice);
        return;
      case 'hello':
        this.#armLoadDeadline();
        break;
      case 'load_progress':
        if (notice.loadedBytes > this.#loadedBytes) this.#armLoadDeadline();
        this.#loadedBytes = notice.loadedBytes;
        break;
      default:
        if (this.#readyAt === undefined) return;
    }
    this.#events.onNotice(notice);
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
    const hasWork = () => this.client.requests.owesTokens;
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
    this.#sendCanary(ready);
  }

  #sendCanary(ready: Ready): void {
    const onAnswered = (): void => {
      if (!this.#isLost) this.#onUsable(ready);
    };
    const sink: RequestSink = {
      onOutput: ({ finish }) => {
        if (finish !== undefined) onAnswered();
      },
      onPromptLogprobs: () => {},
      onEmbedding: onAnswered,
      onError: ({ code, message }) => {
        const sentence = `The runner could not answer a request of one token: ${code} ${message}`.trimEnd();
        this.#condemn('canary', sentence);
      },
    };
    if (isEncoder(ready.architecture)) this.client.embed(encodersCanary, sink);
    else this.client.generate(canary, sink);
  }

  #onUsable(ready: Ready): void {
    this.#deadline?.cancel();
    this.#readyAt = this.#support.clock.now();
    this.#events.onReady(ready);
  }

  #onClosed(error: ProtocolError | undefined): void {
    // A crash looks like a stream that ends inside a frame, so that is no violation.
    if (error !== undefined && error.kind !== 'truncated') {
      if (error.kind === 'internal') this.#events.onInternalError(error.cause);
      const isOfItsOwn = error.kind === 'version' || error.kind === 'internal';
      this.#condemn(isOfItsOwn ? error.kind : 'violation', error.message);
    } else {
      this.#lose();
    }
  }

  /** A pipe is closed, so the exit must follow. */
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

  #onGone(): void {
    this.#hasExited = true;
    this.#deadline?.cancel();
    this.#leaveTimer?.cancel();
    // A grandchild may keep the pipes open, and nobody reads what is written to stdin from now on.
    this.#lose();
  }

  #condemn(kind: Exclude<VerdictKind, 'hung' | 'silent'>, sentence: string): void {
    this.#verdict ??= { kind, sentence };
    this.#kill();
    this.#lose();
  }

  /** Ends a hanging runner by SIGABRT, so that it can leave a core that shows where it hung. */
  #abort(kind: 'hung' | 'silent', sentence: string): void {
    this.#verdict ??= { kind, sentence };
    this.#process.kill('SIGABRT');
    this.#lose();
    this.#arm(this.#support.limits.abortGraceMs, () => this.#kill());
  }

  async #awaitDeath(): Promise<void> {
    const { limits, clock, oomKills } = this.#support;
    let isLeft = false;
    const left = new Promise<RunnerExit>((resolve) => {
      this.#leave = () => {
        isLeft = true;
        resolve({ code: undefined, signal: 'SIGKILL', spawnError: undefined });
      };
    });
    const { exited } = this.#process;
    void exited.then(() => this.#onGone());
    const exit = await Promise.race([exited, left]);
    this.#onGone();
    // The runner's last frames, above all its Failure, may still be in the pipes.
    const read = Promise.all([this.#process.outputClosed, this.client.closed]);
    if (isLeft || !(await settlesWithin(read, limits.exitGraceMs, clock))) {
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
      hasTokens: this.#numOutputs > (this.#needsCanary ? 1 : 0),
      isOutOfMemory: (oomKills() ?? 0) > (this.#oomKillsBefore ?? 0),
    });
  }
}
