/**
 * Keeps one runner alive and every open request going: spawns it, judges its death, waits as long as the back-off says,
 * and gives what was open to the next one. Rules: docs/protocol.md, "Continuing a stream" and "Exit statuses".
 *
 * At any time there is at most one process, and one of: a life, a timer that will start one, a watch that waits for
 * another model file, or none (failed for good, or stopped).
 */
import { Backoff } from './backoff.ts';
import type { RunnerClient } from './client.ts';
import { type Death, exitPolicy } from './exit-policy.ts';
import { FileWatch, fileIdentity } from './file-watch.ts';
import { LoadLog } from './load-log.ts';
import type { Hello, Ready } from './messages.ts';
import { OpenRequest } from './open-request.ts';
import type { RunnerCommand } from './process.ts';
import {
  type GenerateRequest,
  GenerationError,
  type Runner,
  type RunnerInfo,
  type RunnerState,
  type RunnerStatus,
  type TokenBatch,
} from './runner.ts';
import { defaultLifeLimits, type LifeLimits, RunnerLife } from './runner-life.ts';
import { CountersOverLives, type SchedulerStats } from './scheduler-stats.ts';
import { settlesWithin } from './settles-within.ts';

/** What a client is told to wait before it asks again. */
const retryAfterSec = 1;

/** After so many runners in a row that died before they were ready, requests stop waiting for the next one. */
export const maxFruitlessStarts = 3;

export interface RunnerEvent {
  readonly level: 'info' | 'warn' | 'error';
  readonly event: string;
  readonly [key: string]: unknown;
}

export interface SupervisorOptions {
  /**
   * Awaited before each start of a runner. If it rejects, no runner is started until the model file changes, and the
   * error's message is the reason: the same as when the runner itself refuses the file.
   */
  readonly prepare?: () => Promise<void>;
  /** Asked anew for each start. */
  readonly command: () => RunnerCommand;
  /** Where the runner finds its model: a runner that cannot load it is tried again when this file changes. */
  readonly modelPath: string;
  /** Requests that are generating or waiting, cancelled ones included until the runner lets go of them. */
  readonly maxOpenRequests: number;
  /** Prompt tokens of these. */
  readonly maxQueuedTokens: number;
  readonly log: (event: RunnerEvent) => void;
  /** Called for every runner that becomes ready, also when its model is not the one before. */
  readonly onReady?: (info: RunnerInfo) => void;
  readonly backoff?: Backoff;
  readonly limits?: Partial<LifeLimits>;
  readonly modelPollMs?: number;
}

export class Supervisor implements Runner {
  readonly #options: SupervisorOptions;
  readonly #backoff: Backoff;
  /** In the order of their admission, which is the order in which a new runner gets them. */
  readonly #open = new Set<OpenRequest>();
  #state: Exclude<RunnerState, 'stopping'> = 'starting';
  #reason: string | undefined = 'The runner is starting.';
  #life: RunnerLife | undefined;
  /** While the runner is ready. */
  #client: RunnerClient | undefined;
  #hello: Hello | undefined;
  #info: RunnerInfo | undefined;
  #loadProgress: number | undefined;
  #numFreeBlocks: number | undefined;
  #stats: SchedulerStats | undefined;
  readonly #counters = new CountersOverLives();
  #numOpenTokens = 0;
  #modelBefore = Promise.resolve('');
  #numStarts = 0;
  /** Runners in a row that died before they were ready. */
  #fruitlessStarts = 0;
  #startTimer: NodeJS.Timeout | undefined;
  #watch: FileWatch | undefined;
  #stopped: Promise<void> | undefined;
  #onIdle: (() => void) | undefined;

  constructor(options: SupervisorOptions) {
    this.#options = options;
    this.#backoff = options.backoff ?? new Backoff(() => performance.now(), Math.random);
  }

  /** Starts the first runner. To be called once. */
  start(): void {
    this.#startRunner();
  }

  status(): RunnerStatus {
    const isStopping = this.#stopped !== undefined;
    return {
      state: isStopping ? 'stopping' : this.#state,
      reason: isStopping ? 'The server is stopping.' : this.#reason,
      pid: this.#life?.pid,
      restarts: Math.max(0, this.#numStarts - 1),
      openRequests: this.#open.size,
      openTokens: this.#numOpenTokens,
      loadProgress: this.#loadProgress,
      retryAfterSec: this.#retryAfterSec(),
      info: this.#info,
      numFreeBlocks: this.#numFreeBlocks,
      stats: this.#stats,
      counters: this.#counters.sum(),
    };
  }

  generate(request: GenerateRequest, signal: AbortSignal): AsyncGenerator<TokenBatch, void, undefined> {
    const open = this.#admit(request);
    const cancel = () => open.cancel();
    signal.addEventListener('abort', cancel, { once: true });
    if (signal.aborted) cancel();
    return this.#read(open, () => signal.removeEventListener('abort', cancel));
  }

  async *#read(open: OpenRequest, onLeave: () => void): AsyncGenerator<TokenBatch, void, undefined> {
    try {
      for (;;) {
        const batch = await open.next();
        yield batch;
        if (batch.finish !== undefined) return;
      }
    } finally {
      onLeave();
      open.cancel();
    }
  }

  /**
   * Refuses new requests, lets the open ones finish for at most drainMs, fails the rest, and ends the runner. Nothing
   * is left afterwards: no process, no timer.
   */
  stop(drainMs: number): Promise<void> {
    this.#stopped ??= this.#drainAndEnd(drainMs);
    return this.#stopped;
  }

  async #drainAndEnd(drainMs: number): Promise<void> {
    this.#watch?.stop();
    this.#client?.drain();
    this.#log('info', 'runner_draining', { openRequests: this.#open.size });
    if (this.#open.size > 0) {
      await settlesWithin(new Promise<void>((resolve) => (this.#onIdle = resolve)), drainMs);
    }
    this.#failAll('The server stopped before the request was finished.', true);
    clearTimeout(this.#startTimer);
    await this.#life?.end();
  }

  requireAnyRoom(): void {
    this.#requireReady();
    this.#requireRoomFor(1, 1);
  }

  requireRoom(requests: readonly GenerateRequest[]): void {
    const { modelIdentity } = this.#requireReady();
    if (requests.some((request) => request.modelIdentity !== modelIdentity)) {
      throw this.#notReady('The model was replaced while the request was being prepared; send it again.');
    }
    const numTokens = requests.reduce((sum, { promptIds }) => sum + promptIds.length, 0);
    this.#requireRoomFor(requests.length, numTokens);
  }

  #requireReady(): RunnerInfo {
    const { state, reason } = this.status();
    if (this.#info !== undefined && (state === 'ready' || state === 'recovering')) return this.#info;
    throw this.#notReady(reason ?? 'The runner is not ready.');
  }

  #requireRoomFor(numAnswers: number, numTokens: number): void {
    const { maxOpenRequests, maxQueuedTokens } = this.#options;
    const { numCancelled = 0, numCancelledTokens = 0 } = this.#client ?? {};
    requireRoomFor('answers', numAnswers, this.#open.size + numCancelled, maxOpenRequests);
    requireRoomFor('prompt tokens', numTokens, this.#numOpenTokens + numCancelledTokens, maxQueuedTokens);
  }

  #admit(request: GenerateRequest): OpenRequest {
    this.requireRoom([request]);
    const open = new OpenRequest(request, (ended) => this.#onEnd(ended));
    this.#open.add(open);
    this.#numOpenTokens += open.numPromptTokens;
    if (this.#client !== undefined) open.submit(this.#client);
    return open;
  }

  #onEnd(ended: OpenRequest): void {
    this.#open.delete(ended);
    this.#numOpenTokens -= ended.numPromptTokens;
    if (this.#open.size === 0) this.#onIdle?.();
  }

  #startRunner(): void {
    const { prepare, modelPath } = this.#options;
    this.#watch?.stop();
    this.#watch = undefined;
    // Before anybody opens the file: whatever is written from now on is another attempt's.
    this.#modelBefore = fileIdentity(modelPath);
    const prepared = prepare?.() ?? Promise.resolve();
    prepared.then(
      () => this.#spawn(),
      (error: unknown) => this.#fail(error instanceof Error ? error.message : String(error), true),
    );
  }

  #spawn(): void {
    if (this.#isOver()) return;
    const { command, limits } = this.#options;
    this.#numStarts += 1;
    const loadLog = new LoadLog((percent) => this.#log('info', 'model_load_progress', { percent }));
    const life = new RunnerLife(
      command(),
      { ...defaultLifeLimits, ...limits },
      {
        onHello: (hello) => {
          this.#hello = hello;
        },
        onLoadProgress: (fraction) => {
          this.#loadProgress = fraction;
          // All bytes are there before the runner is: the last step is Ready's.
          if (fraction < 1) loadLog.reached(fraction);
        },
        onReady: (ready) => {
          loadLog.reached(1);
          this.#onReady(life, ready);
        },
        onHeartbeat: ({ numFreeBlocks }) => {
          this.#numFreeBlocks = numFreeBlocks;
        },
        onStats: ({ type: _, ...stats }) => {
          this.#stats = stats;
          this.#counters.update(stats);
        },
        onLost: () => this.#onLost(),
        onDied: (death) => this.#onDied(life, death),
        onStderrLine: (line) => this.#log('info', 'runner_stderr', { pid: life.pid, line }),
      },
    );
    this.#life = life;
    this.#log('info', 'model_load_start', { pid: life.pid, start: this.#numStarts });
    loadLog.reached(0);
  }

  #onReady(life: RunnerLife, { type: _, ...ready }: Ready): void {
    const hello = this.#hello;
    if (hello === undefined) throw new Error('A runner was ready before its Hello.');
    const before = this.#info;
    const info = { kind: hello.kind, build: hello.build, numericsId: hello.numericsId, ...ready };
    this.#info = info;
    this.#client = life.client;
    this.#state = 'ready';
    this.#fruitlessStarts = 0;
    this.#reason = undefined;
    this.#loadProgress = undefined;
    this.#log('info', 'model_load_complete', {
      pid: life.pid,
      msg: `Model loaded to ${info.kind.toUpperCase()} memory`,
      memory_bytes: info.weightsBytes + info.kvCacheBytes,
      openRequests: this.#open.size,
      ...info,
    });
    if (before !== undefined && before.numericsId !== info.numericsId && this.#open.size > 0) {
      const change = { from: before.numericsId, to: info.numericsId, openRequests: this.#open.size };
      this.#log('warn', 'numerics_changed', change);
    }
    for (const open of this.#open) {
      if (open.modelIdentity === info.modelIdentity) open.submit(life.client);
      else open.fail(inferenceFailed('The model file was replaced while the request was open.', true));
    }
    if (this.#stopped !== undefined) life.client.drain();
    this.#options.onReady?.(info);
  }

  #onLost(): void {
    this.#client = undefined;
    this.#loadProgress = undefined;
    this.#numFreeBlocks = undefined;
    this.#stats = undefined;
    this.#counters.endLife();
    if (this.#state !== 'ready') return;
    this.#state = 'recovering';
    this.#reason = 'The runner ended unexpectedly; another one is coming.';
  }

  #onDied(life: RunnerLife, death: Death): void {
    this.#onLost();
    this.#life = undefined;
    const policy = exitPolicy(death);
    const isOver = this.#isOver();
    const level = isOver ? 'info' : policy.action === 'restart' ? 'warn' : 'error';
    this.#log(level, 'runner_exited', {
      pid: life.pid,
      ...death.exit,
      ...(isOver ? {} : { reason: policy.reason, stderrTail: life.stderrTail }),
    });
    if (isOver) return;
    if (policy.action !== 'restart') {
      this.#fail(policy.reason, policy.action === 'wait_for_file');
      return;
    }
    this.#reason = policy.reason;
    for (const open of this.#open) open.onRunnerDied(policy.countsForRequests);
    if (death.readyForMs === undefined && policy.countsForRequests) this.#fruitlessStarts += 1;
    if (this.#fruitlessStarts >= maxFruitlessStarts) {
      // More will be tried, but nobody shall wait for them without end.
      this.#state = 'starting';
      this.#failAll(policy.reason, true);
    }
    const delayMs = policy.countsForBackoff ? this.#backoff.nextDelayMs(death.readyForMs ?? 0) : 0;
    this.#log('info', 'runner_restarting', { delayMs });
    this.#startTimer = setTimeout(() => this.#startRunner(), delayMs);
  }

  /** undefined while requests are taken, and when no runner will come however long one waits. */
  #retryAfterSec(): number | undefined {
    if (this.#stopped !== undefined || this.#watch !== undefined) return retryAfterSec;
    return this.#state === 'starting' || this.#state === 'recovering' ? retryAfterSec : undefined;
  }

  #notReady(message: string): GenerationError {
    const seconds = this.#retryAfterSec() ?? (this.#state === 'ready' ? retryAfterSec : undefined);
    if (seconds === undefined) return new GenerationError('NOT_READY', message, { retriable: false });
    return new GenerationError('NOT_READY', message, { retriable: true, retryAfterSec: seconds });
  }

  /** Stopped, and nobody waits for a runner any more. */
  #isOver(): boolean {
    return this.#stopped !== undefined && this.#open.size === 0;
  }

  /** No runner until the model file changes, or at all. The requests that are open have no use for a changed file. */
  #fail(reason: string, canFileHelp: boolean): void {
    this.#state = 'failed';
    this.#reason = reason;
    this.#log('error', 'model_failed', { reason, retriedWhenFileChanges: canFileHelp });
    this.#failAll(reason, canFileHelp);
    if (this.#stopped !== undefined) return;
    if (canFileHelp) {
      const { modelPath, modelPollMs = 1000 } = this.#options;
      this.#watch = new FileWatch(modelPath, this.#modelBefore, modelPollMs, () => {
        this.#state = 'starting';
        this.#reason = 'The model file has changed; it is being loaded.';
        this.#log('info', 'model_file_changed', { modelPath });
        this.#startRunner();
      });
    }
  }

  #failAll(reason: string, retriable: boolean): void {
    for (const open of this.#open) open.fail(inferenceFailed(reason, retriable));
  }

  #log(level: RunnerEvent['level'], event: string, fields: Record<string, unknown>): void {
    this.#options.log({ level, event, ...fields });
  }
}

/** What could not be held even alone is the request's own fault; waiting helps with the rest. */
function requireRoomFor(what: string, numWanted: number, numHeld: number, limit: number): void {
  if (numHeld + numWanted <= limit) return;
  if (numWanted > limit) {
    const message = `The request asks for ${numWanted} ${what}, and this server holds at most ${limit} at once; ask for fewer.`;
    throw new GenerationError('INVALID_REQUEST', message, { retriable: false });
  }
  const message = `${numHeld} ${what} are held; ${numWanted} more would exceed the limit of ${limit}.`;
  throw new GenerationError('QUEUE_FULL', message, { retriable: true, retryAfterSec });
}

function inferenceFailed(message: string, retriable: boolean): GenerationError {
  return new GenerationError('INFERENCE_FAILED', message, { retriable });
}
