/**
 * Which runner has which of the open requests. A request that a runner died with is a suspect until it has a new token, and gets
 * that in an isolation run: alone with a runner, which is asked for one token. If the runner dies again it was this request, which
 * is failed and refused from then on. Of several runners one computes suspects, one after another, while the others serve on;
 * a runner that is alone does nothing else meanwhile. Nobody loses anything but time.
 */
import type { RunnerClient } from '../protocol/client.ts';
import { type GenerateRequest, GenerationError, type TokenSink } from '../runner.ts';
import type { RequestInFlight } from './crash.ts';
import { bestRunner, prefixHashes } from './known-prefixes.ts';
import { OpenRequest } from './open-request.ts';
import { fingerprintOf, type Quarantine } from './quarantine.ts';
import { ScheduledRunner } from './scheduled-runner.ts';

/** Deaths without a new token in between, the last of them alone with the runner. */
export const maxCrashCount = 2;

export interface RequestSchedulerEvents {
  /** The last open request has ended. */
  onIdle(): void;
  /** A runner on probation has given somebody a token, or a vector. */
  onProven(index: number): void;
  onQuarantined(numPromptIds: number, numEmitted: number): void;
  /** Whether this runner, which takes no requests now, is about to. */
  isComing(index: number): boolean;
}

export class RequestScheduler {
  readonly #quarantine: Quarantine;
  readonly #events: RequestSchedulerEvents;
  readonly #runners: readonly ScheduledRunner[];
  /** In the order of their admission. */
  readonly #open = new Set<OpenRequest>();
  /** Those of them that no runner has, in the same order, which is that in which runners get them. */
  #pending = new Set<OpenRequest>();
  #numOpenTokens = 0;
  #isDraining = false;
  /** More than one thing changes: runners get nothing before all of it has. */
  #isChanging = false;

  constructor(numRunners: number, quarantine: Quarantine, events: RequestSchedulerEvents) {
    this.#runners = Array.from({ length: numRunners }, (_, index) => new ScheduledRunner(index));
    this.#quarantine = quarantine;
    this.#events = events;
  }

  get numOpen(): number {
    return this.#open.size;
  }

  /** The open ones, and the cancelled ones that a runner has not let go of. */
  get numHeld(): number {
    return this.#runners.reduce((sum, { client }) => sum + (client?.numCancelled ?? 0), this.#open.size);
  }

  /** Of the prompts of the open ones. */
  get numOpenTokens(): number {
    return this.#numOpenTokens;
  }

  /** Of those that are held. */
  get numHeldTokens(): number {
    const add = (sum: number, { client }: ScheduledRunner) => sum + (client?.numCancelledTokens ?? 0);
    return this.#runners.reduce(add, this.#numOpenTokens);
  }

  /** Requests that this runner has, or had when it was lost. */
  numWith(index: number): number {
    return this.#runner(index).requests.size;
  }

  /** Whether there is, or may be, something for this runner to compute. */
  isWanted(index: number): boolean {
    return this.numWith(index) > 0 || this.#pending.size > 0;
  }

  /** GenerationError for one that has been found to crash runners. */
  assertNotQuarantined(request: GenerateRequest): void {
    if (this.#quarantine.has(request)) throw runnerCrashed();
  }

  admit(request: GenerateRequest, sink: TokenSink): OpenRequest {
    const open = new OpenRequest(request, sink, {
      onEnd: (ended) => this.#onEnd(ended),
      onIsolationPassed: (passed) => this.#onIsolationPassed(passed),
      onLegPassed: () => this.#drainIfSent(),
    });
    this.#open.add(open);
    this.#pending.add(open);
    this.#numOpenTokens += open.numPromptTokens;
    this.#submitPending();
    return open;
  }

  /** A runner takes requests. isOnProbation: one of them must get a token before it gets the others. */
  onReady(index: number, client: RunnerClient, modelIdentity: string, isOnProbation: boolean): void {
    this.#change(() => {
      this.#runner(index).onReady(client, modelIdentity, isOnProbation);
      this.#failOfOtherModels();
    });
  }

  /** A runner holds a cancelled request no longer. */
  onLetGo(): void {
    if (this.#pending.size > 0) this.#submitPending();
  }

  /** Nothing can be asked of this runner any more. */
  onLost(index: number): void {
    const runner = this.#runner(index);
    runner.client = undefined;
    for (const open of runner.requests) open.onRunnerLost();
  }

  /** This runner is about to be ended: it has nobody's request any more, and others get them. */
  takeBack(index: number): void {
    const runner = this.#runner(index);
    this.#change(() => {
      this.#takeBackAll(runner);
      runner.client = undefined;
      this.#failOfOtherModels();
    });
  }

  /** What this runner has, or had when it was lost. */
  inFlight(index: number): RequestInFlight[] {
    return [...this.#runner(index).requests].flatMap((open) => open.inFlight ?? []);
  }

  /** areSuspects: what the runner computed may be the cause. ending: with which what it had ends, if no other may have that. */
  onDied(index: number, areSuspects: boolean, ending?: GenerationError): void {
    const runner = this.#runner(index);
    this.#change(() => {
      const had = [...runner.requests];
      runner.onDied();
      for (const open of had) open.onRunnerDied(areSuspects);
      this.#sortPending();
      for (const open of had) if (open.crashCount >= maxCrashCount) this.#putInQuarantine(open);
      if (ending !== undefined) for (const open of had) if (this.#open.has(open)) open.fail(ending);
      this.#failOfOtherModels();
    });
  }

  /** A runner that was waited for does not come. */
  onGivenUp(): void {
    this.#submitPending();
  }

  /** No more requests will be admitted: runners that have been given all of them are told so. */
  drain(): void {
    this.#isDraining = true;
    this.#submitPending();
  }

  /** Ends all of them, with the runners too: they would compute on for nobody. */
  failAll(error: GenerationError): void {
    this.#change(() => {
      for (const open of this.#open) {
        open.takeBack();
        open.fail(error);
      }
    });
  }

  #change(action: () => void): void {
    const isPart = this.#isChanging;
    this.#isChanging = true;
    try {
      action();
    } finally {
      this.#isChanging = isPart;
    }
    if (!isPart) this.#submitPending();
  }

  #runner(index: number): ScheduledRunner {
    const runner = this.#runners[index];
    if (runner === undefined) throw new Error(`There is no runner ${index}.`);
    return runner;
  }

  #putInQuarantine(culprit: OpenRequest): void {
    const { request } = culprit;
    this.#quarantine.add(request);
    // The other choices of the same request would crash one runner each.
    const fingerprint = fingerprintOf(request);
    for (const open of this.#open) {
      const isSame = open === culprit || (open.crashCount > 0 && fingerprintOf(open.request) === fingerprint);
      if (!isSame) continue;
      this.#events.onQuarantined(open.numPromptTokens, open.numEmitted);
      open.fail(runnerCrashed());
    }
  }

  #onEnd(ended: OpenRequest): void {
    this.#open.delete(ended);
    this.#pending.delete(ended);
    this.#numOpenTokens -= ended.numPromptTokens;
    const runner = this.#runners.find(({ requests }) => requests.delete(ended));
    if (runner?.isolationRun === ended) this.#endIsolationRun(runner, ended);
    // A runner that has nothing now can compute a suspect.
    else if (this.#pending.size > 0) this.#submitPending();
    else if (ended.isInLegs) this.#drainIfSent();
    if (this.#open.size === 0) this.#events.onIdle();
  }

  /** It has its token and goes on beside others. */
  #onIsolationPassed(passed: OpenRequest): void {
    const runner = this.#runners.find(({ isolationRun }) => isolationRun === passed);
    if (runner === undefined) return;
    runner.requests.delete(passed);
    this.#sortPending();
    this.#endIsolationRun(runner, passed);
  }

  #endIsolationRun(runner: ScheduledRunner, ended: OpenRequest): void {
    const isProof = runner.isOnProbation && ended.hasResult;
    runner.isolationRun = undefined;
    runner.isClearing = true;
    if (isProof) {
      runner.isOnProbation = false;
      this.#events.onProven(runner.index);
    }
    this.#submitPending();
  }

  #takeBackAll(runner: ScheduledRunner): void {
    runner.isolationRun = undefined;
    for (const open of runner.requests) open.takeBack();
    runner.requests.clear();
    this.#sortPending();
  }

  /** Requests that were with a runner come again where they were admitted. */
  #sortPending(): void {
    this.#pending = new Set([...this.#open].filter((open) => !open.isSent));
  }

  /** Ids of one model's vocabulary mean other text to another's: no runner that is ready can go on with these. */
  #failOfOtherModels(): void {
    const models = new Set(this.#runners.flatMap((runner) => (runner.client ? [runner.modelIdentity] : [])));
    if (models.size === 0) return;
    const message = 'The model file was replaced while the request was open.';
    for (const open of this.#pending) {
      if (models.has(open.request.modelIdentity)) continue;
      open.fail(new GenerationError('INFERENCE_FAILED', message, { retriable: true }));
    }
  }

  /** Gives the runners what they may have now. */
  #submitPending(): void {
    if (this.#isChanging) return;
    for (const runner of this.#runners) if (runner.client?.numCancelled === 0) runner.isClearing = false;
    this.#reserveForIsolation();
    for (const runner of this.#runners) {
      const open = runner.canIsolate ? this.#nextIsolationRun(runner) : undefined;
      if (open !== undefined) this.#submit(open, runner, true);
    }
    for (const open of [...this.#pending]) {
      // It may have ended, or been given away, since the one before it was.
      if (open.crashCount > 0 || !this.#pending.has(open)) continue;
      const runner = this.#runnerFor(open.request);
      if (runner !== undefined) this.#submit(open, runner, false);
    }
    this.#drainIfSent();
  }

  #submit(open: OpenRequest, runner: ScheduledRunner, isAlone: boolean): void {
    const { client } = runner;
    if (client === undefined) throw new Error(`Runner ${runner.index} takes no requests.`);
    this.#pending.delete(open);
    // First: the request may end within submit.
    runner.requests.add(open);
    if (isAlone) runner.isolationRun = open;
    if (this.#runners.length > 1) runner.prefixes.add(prefixHashes(open.request));
    open.submit(client, { isIsolationRun: isAlone });
  }

  #runnerFor(request: GenerateRequest): ScheduledRunner | undefined {
    const { modelIdentity } = request;
    const able = this.#runners.filter((runner) => runner.canServe && runner.modelIdentity === modelIdentity);
    return able.length < 2 ? able[0] : bestRunner(able, prefixHashes(request));
  }

  get #isIsolatingSuspect(): boolean {
    return this.#runners.some(
      ({ isolationRun }) => isolationRun !== undefined && isolationRun.crashCount > 0,
    );
  }

  #nextIsolationRun({ isOnProbation, modelIdentity }: ScheduledRunner): OpenRequest | undefined {
    const isTakingSuspects = !this.#isIsolatingSuspect;
    for (const open of this.#pending) {
      if (open.request.modelIdentity !== modelIdentity) continue;
      if (open.crashCount > 0 ? isTakingSuspects : isOnProbation) return open;
    }
    return undefined;
  }

  /** Frees a runner for suspects where none is free and none that would be is coming. */
  #reserveForIsolation(): void {
    const hasSuspect = [...this.#pending].some(({ crashCount }) => crashCount > 0);
    if (!hasSuspect) {
      for (const runner of this.#runners) runner.isReserved = false;
      return;
    }
    if (this.#isIsolatingSuspect) return;
    const isOneFree = this.#runners.some(({ isReserved, canIsolate }) => isReserved || canIsolate);
    const isOneComing = this.#runners.some(
      ({ client, index }) => client === undefined && this.#events.isComing(index),
    );
    if (isOneFree || isOneComing) return;
    const serving = this.#runners.filter(({ canServe }) => canServe);
    const [first, ...others] = serving;
    if (first === undefined) return;
    const least = others.reduce((best, runner) => (runner.load < best.load ? runner : best), first);
    least.isReserved = true;
    this.#takeBackAll(least);
  }

  /** Once runners have been asked for all that they will be asked for. */
  #drainIfSent(): void {
    if (!this.#isDraining || this.#pending.size > 0) return;
    for (const open of this.#open) if (open.isInLegs) return;
    this.#drainRunners();
  }

  #drainRunners(): void {
    if (this.#runners.some(({ isolationRun }) => isolationRun !== undefined)) return;
    for (const runner of this.#runners) {
      if (runner.client === undefined || runner.isDraining) continue;
      runner.isDraining = true;
      runner.client.drain();
    }
  }
}

function runnerCrashed(): GenerationError {
  const message = 'The runner crashes whenever it computes this request; do not send it again.';
  return new GenerationError('RUNNER_CRASHED', message, { retriable: false });
}
