/**
 * Decides which runner gets which open request, and when. Callers share the places of a runner's steps: who has the fewest for
 * its shares gets the next one, and where no place is free, one of the caller that has the most is handed over. A handed-over
 * request goes on later where it stands, so a caller that comes to a full server waits for a step and not for answers. With
 * parksByPriority the same happens among the requests of one caller: a less urgent one is parked for one that is more urgent.
 *
 * A request that a runner died with is a suspect until it has a new token. It
 * gets that token in an isolation run: alone with a runner, which is asked for one token. If the runner dies again, this
 * request was the cause: it fails, and is refused from then on. Of several runners, one computes the suspects one after
 * another while the others serve on; a single runner does nothing else meanwhile. The other requests lose nothing but time.
 */
import { type Caller, isInBackground } from '../../system/caller.ts';
import { FairQueue } from '../../system/fair-shares.ts';
import type { Loading } from '../kv-disk/kv-disk.ts';
import type { RunnerClient } from '../protocol/client.ts';
import type { SchedulerStats } from '../protocol/scheduler-stats.ts';
import { type GenerateRequest, GenerationError, type TokenSink } from '../runner.ts';
import type { AdmissionLimits } from './admission-limits.ts';
import { OpenRequest, type RequestFacts } from './open-request.ts';
import { fingerprintOf, type Quarantine } from './quarantine.ts';
import { bestRunner, GrammarTurns, prefixHashes, ScheduledRunner, StepPlaces } from './scheduled-runner.ts';

/** Deaths without a new token in between, the last of them in an isolation run, that put a request into quarantine. */
export const maxCrashCount = 2;

export interface RequestSchedulerEvents {
  onIdle(): void;
  /** A runner on probation has made a token or a vector. */
  onProven(index: number): void;
  /** A request was refused for good. numPromptIds: prompt tokens. numEmitted: tokens of its answer so far. */
  onQuarantined(numPromptIds: number, numEmitted: number): void;
  /** Whether this runner, which takes no requests now, will take some soon. */
  isComing(index: number): boolean;
  /** A request was taken from its runner in the middle of its answer, because the other one is more urgent. */
  onParked(open: OpenRequest, urgent: OpenRequest): void;
  /** Descriptors by which this runner knows the KV caches of these places. */
  kvFrom(index: number, places: readonly number[]): readonly number[];
  /** Looks for blocks of a new request's text; undefined: there is nowhere to look. */
  load?(open: OpenRequest): Loading | undefined;
}

export interface RequestSchedulerOptions {
  readonly numRunners: number;
  readonly quarantine: Quarantine;
  readonly limits: AdmissionLimits;
  /** Milliseconds that never go back. */
  readonly now: () => number;
  /** Whether requests are parked for more urgent ones of their caller. By default they are not. */
  readonly parksByPriority?: boolean | undefined;
}

export class RequestScheduler {
  readonly #limits: AdmissionLimits;
  readonly #now: () => number;
  readonly #quarantine: Quarantine;
  readonly #events: RequestSchedulerEvents;
  readonly #parksByPriority: boolean;
  readonly #runners: readonly ScheduledRunner[];
  readonly #open = new Set<OpenRequest>();
  /** Open requests that no runner has. */
  readonly #pending: FairQueue<OpenRequest>;
  #numAdmitted = 0;
  #isDraining = false;
  /** Set while several things change together: no runner gets a request until all of them have changed. */
  #isChanging = false;

  constructor(
    { numRunners, quarantine, limits, now, parksByPriority = false }: RequestSchedulerOptions,
    events: RequestSchedulerEvents,
  ) {
    this.#parksByPriority = parksByPriority;
    this.#limits = limits;
    this.#now = now;
    this.#pending = new FairQueue(limits.requests.ceiling);
    this.#runners = Array.from({ length: numRunners }, (_, index) => new ScheduledRunner(index));
    this.#quarantine = quarantine;
    this.#events = events;
  }

  get numOpen(): number {
    return this.#open.size;
  }

  get numOpenInBackground(): number {
    return [...this.#open].filter(({ caller }) => isInBackground(caller)).length;
  }

  get numOpenTokens(): number {
    return this.#limits.tokens.total;
  }

  /** Open requests that no runner has. */
  get numPending(): number {
    return this.#pending.size;
  }

  /** Number of requests that this runner has, or had when it was lost. */
  numWith(index: number): number {
    return this.#runner(index).requests.size;
  }

  /** Whether this runner has, or may get, something to compute. */
  isWanted(index: number): boolean {
    return this.numWith(index) > 0 || this.#pending.size > 0;
  }

  /** Throws GenerationError for a request that is known to crash runners. */
  assertNotQuarantined(request: GenerateRequest): void {
    if (this.#quarantine.has(request)) throw runnerCrashed();
  }

  /** Throws GenerationError if the caller's requests cannot be admitted. Those that runners have not let go of count. */
  assertRoom(caller: Caller, numRequests: number, numTokens: number): void {
    const sent = this.#runners.flatMap(({ client }) => client?.requests ?? []);
    this.#limits.assertRoom(
      caller,
      { requests: numRequests, tokens: numTokens },
      {
        requests: sent.reduce((sum, { numCancelled }) => sum + numCancelled, 0),
        tokens: sent.reduce((sum, { numCancelledTokens }) => sum + numCancelledTokens, 0),
      },
    );
  }

  admit(request: GenerateRequest, sink: TokenSink): OpenRequest {
    const open = new OpenRequest(request, sink, this.#numAdmitted++, this.#now, {
      onEnd: (ended) => this.#onEnd(ended),
      onIsolationPassed: (passed) => this.#onIsolationPassed(passed),
      onGrammarCompiled: (compiled, key) => this.#onGrammarCompiled(compiled, key),
      onSegmentPassed: () => this.#drainIfSent(),
      onPaused: () => {
        if (this.#pending.size > 0) this.#submitPending();
      },
    });
    this.#open.add(open);
    this.#limits.hold(open.caller, request.promptIds.length);
    this.#pending.add(open, open.order);
    const loading = this.#events.load?.(open);
    if (loading === undefined) this.#submitPending();
    else void open.load(loading).then(() => this.#submitPending());
    return open;
  }

  /** A runner takes requests. isOnProbation: one request must get a token before the runner gets others. */
  onReady(index: number, client: RunnerClient, modelIdentity: string, isOnProbation: boolean): void {
    this.#change(() => {
      this.#runner(index).onReady(client, modelIdentity, isOnProbation);
      this.#failOfOtherModels();
    });
  }

  onReleased(): void {
    if (this.#pending.size > 0) this.#submitPending();
  }

  /** What the runner holds, which it says once a second. */
  onStats(index: number, stats: SchedulerStats): void {
    const { blockWaits, canServe, client, computing } = this.#runner(index);
    if (!this.#parksByPriority || !canServe || client === undefined) return;
    const { urgent, surplus } = blockWaits.next(computing, client.ready.blockSize, stats);
    if (urgent === undefined) return;
    this.#change(() => {
      for (const open of surplus) this.#park(open, urgent);
    });
  }

  onLost(index: number): void {
    const runner = this.#runner(index);
    runner.client = undefined;
    for (const open of runner.requests) open.onRunnerLost();
  }

  /** The runner is about to be ended: its requests go to other runners. */
  takeBack(index: number): void {
    const runner = this.#runner(index);
    this.#change(() => {
      this.#takeBackAll(runner);
      runner.client = undefined;
      this.#failOfOtherModels();
    });
  }

  /** The requests that this runner has, or had when it was lost. */
  requestsWith(index: number): RequestFacts[] {
    return [...this.#runner(index).requests].flatMap(({ facts }) => (facts === undefined ? [] : [facts]));
  }

  /**
   * areSuspects: what the runner computed may be the cause. ending: the error for its requests, if no other runner may take
   * them.
   */
  onDied(index: number, areSuspects: boolean, ending?: GenerationError): void {
    const runner = this.#runner(index);
    this.#change(() => {
      const had = [...runner.requests];
      runner.onDied();
      for (const open of had) open.onRunnerDied(areSuspects);
      this.#requeue();
      for (const open of had)
        if (open.state.crashesWithoutProgress >= maxCrashCount) this.#putInQuarantine(open);
      if (ending !== undefined) for (const open of had) if (this.#open.has(open)) open.fail(ending);
      this.#failOfOtherModels();
    });
  }

  onGivenUp(): void {
    this.#submitPending();
  }

  /** No more requests will be admitted. Each runner gets a Drain once nothing more will be sent. */
  drain(): void {
    this.#isDraining = true;
    this.#submitPending();
  }

  /** Ends all open requests, and cancels them on their runners, which would otherwise compute for nobody. */
  failAll(error: GenerationError): void {
    this.#change(() => {
      for (const open of this.#open) open.abort(error);
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
    // Other choices of the same request would crash one runner each.
    const fingerprint = fingerprintOf(request);
    for (const open of this.#open) {
      const isSame = open === culprit || (open.isSuspect && fingerprintOf(open.request) === fingerprint);
      if (!isSame) continue;
      this.#events.onQuarantined(open.request.promptIds.length, open.state.numEmitted);
      open.fail(runnerCrashed());
    }
  }

  #onEnd(ended: OpenRequest): void {
    this.#open.delete(ended);
    this.#pending.delete(ended);
    this.#limits.release(ended.caller, ended.request.promptIds.length);
    const runner = this.#runners.find(({ requests }) => requests.delete(ended));
    if (runner?.isolationRun === ended) this.#endIsolationRun(runner, ended);
    // A runner that has nothing to do now can compute a suspect.
    else if (this.#pending.size > 0) this.#submitPending();
    else if (ended.state.segment !== undefined) this.#drainIfSent();
    if (this.#open.size === 0) this.#events.onIdle();
  }

  #onGrammarCompiled(open: OpenRequest, key: string): void {
    const runner = this.#runners.find(({ requests }) => requests.has(open));
    if (runner === undefined) return;
    const isNew = !runner.grammars.has(key);
    runner.grammars.add(key);
    if (isNew && this.#pending.size > 0) this.#submitPending();
  }

  /** The suspect has its token and goes on beside others. */
  #onIsolationPassed(passed: OpenRequest): void {
    const runner = this.#runners.find(({ isolationRun }) => isolationRun === passed);
    if (runner === undefined) return;
    runner.requests.delete(passed);
    this.#requeue();
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
    this.#requeue();
  }

  /** Requests that a runner gave back wait again, at the places of their admission. */
  #requeue(): void {
    for (const open of this.#open)
      if (!open.isSent && !this.#pending.has(open)) this.#pending.add(open, open.order);
  }

  /** Token ids mean other text in another model, so a request fails if no ready runner has its model. */
  #failOfOtherModels(): void {
    const models = new Set(this.#runners.flatMap((runner) => (runner.client ? [runner.modelIdentity] : [])));
    if (models.size === 0) return;
    const message = 'The model file was replaced while the request was open.';
    for (const open of this.#pending) {
      if (models.has(open.request.modelIdentity)) continue;
      open.fail(new GenerationError('INFERENCE_FAILED', message, { retriable: true }));
    }
  }

  #submitPending(): void {
    if (this.#isChanging) return;
    for (const runner of this.#runners)
      if (runner.client?.requests.numCancelled === 0) runner.isClearing = false;
    this.#reserveForIsolation();
    for (const runner of this.#runners) {
      const open = runner.canIsolate ? this.#nextIsolationRun(runner) : undefined;
      if (open !== undefined) this.#submit(open, runner, true);
    }
    for (const open of this.#grammarTurns.surplus) this.#takeBackForOthers(open);
    for (let next = this.#takeNext(); next !== undefined; next = this.#takeNext())
      this.#submit(next.open, next.runner, false);
    this.#drainIfSent();
  }

  #submit(open: OpenRequest, runner: ScheduledRunner, isAlone: boolean): void {
    const { client } = runner;
    if (client === undefined) throw new Error(`Runner ${runner.index} takes no requests.`);
    this.#pending.delete(open);
    // Before submit(), because the request may end within it.
    runner.requests.add(open);
    if (isAlone) runner.isolationRun = open;
    if (this.#runners.length > 1) for (const hash of prefixHashes(open.request)) runner.prefixes.add(hash);
    const kvFrom = this.#events.kvFrom(runner.index, open.places);
    open.submit(client, { isIsolationRun: isAlone, place: runner.index, kvFrom });
  }

  /** Takes the next request that a runner has room for out of the queue. Makes room if its caller has too little. */
  #takeNext(): { readonly open: OpenRequest; readonly runner: ScheduledRunner } | undefined {
    if (this.#pending.size === 0) return undefined;
    const places = new StepPlaces(this.#runners, this.#parksByPriority);
    const held = (caller: Caller): number => places.heldBy(caller);
    const turns = this.#grammarTurns;
    const ableFor = (open: OpenRequest, runners = this.#runners): readonly ScheduledRunner[] =>
      open.isSuspect || open.isLoading
        ? []
        : runners.filter(
            (runner) =>
              runner.canServe &&
              runner.modelIdentity === open.request.modelIdentity &&
              turns.mayHave(open, runner),
          );
    const next = this.#pending.peek({ fits: (open) => ableFor(open).length > 0, held });
    if (next === undefined) return undefined;
    const able = ableFor(next);
    while (!able.some((runner) => runner.hasRoom(this.#isShared))) {
      const last = places.takeFor(next.caller, able);
      if (last === undefined) break;
      this.#takeBackForOthers(last);
    }
    const withRoom = this.#runners.filter((runner) => runner.canServe && runner.hasRoom(this.#isShared));
    const open =
      withRoom.length === 0
        ? undefined
        : this.#pending.take({ fits: (each) => ableFor(each, withRoom).length > 0, held });
    if (open === undefined) return this.#parksByPriority ? this.#takeUrgent(places, ableFor) : undefined;
    const runner = runnerFor(open, ableFor(open, withRoom));
    return runner && { open, runner };
  }

  /** The next request that gets room because less urgent ones of its caller are parked. The caller's place stays its own. */
  #takeUrgent(
    places: StepPlaces,
    ableFor: (open: OpenRequest) => readonly ScheduledRunner[],
  ): { readonly open: OpenRequest; readonly runner: ScheduledRunner } | undefined {
    const open = this.#pending.peek({
      fits: (each) => places.lessUrgent(each, ableFor(each)) !== undefined,
      held: (caller) => places.heldBy(caller),
    });
    if (open === undefined) return undefined;
    const able = ableFor(open);
    while (!able.some((runner) => runner.hasRoom(this.#isShared))) {
      const last = places.lessUrgent(open, able);
      if (last === undefined) return undefined;
      this.#park(last, open);
    }
    const withRoom = able.filter((runner) => runner.hasRoom(this.#isShared));
    const runner = runnerFor(open, withRoom);
    return runner && { open, runner };
  }

  #park(open: OpenRequest, urgent: OpenRequest): void {
    this.#takeBackForOthers(open);
    // One without a token has lost nothing but its turn.
    if (open.hasResult) this.#events.onParked(open, urgent);
  }

  get #grammarTurns(): GrammarTurns {
    return new GrammarTurns(this.#runners, this.#open);
  }

  #takeBackForOthers(open: OpenRequest): void {
    open.giveWay();
    for (const { requests } of this.#runners) requests.delete(open);
    this.#pending.add(open, open.order);
  }

  /** Whether those who have requests contend for places: callers, or requests of different priority where these are parked. */
  get #isShared(): boolean {
    if (this.#limits.requests.numCallers > 1) return true;
    return this.#parksByPriority && new Set([...this.#open].map(({ priority }) => priority)).size > 1;
  }

  get #isIsolatingSuspect(): boolean {
    return this.#runners.some(({ isolationRun }) => isolationRun?.isSuspect);
  }

  #nextIsolationRun({ isOnProbation, modelIdentity }: ScheduledRunner): OpenRequest | undefined {
    const isTakingSuspects = !this.#isIsolatingSuspect;
    let first: OpenRequest | undefined;
    for (const open of this.#pending) {
      if (open.request.modelIdentity !== modelIdentity) continue;
      if (!(open.isSuspect ? isTakingSuspects : isOnProbation)) continue;
      if (first === undefined || open.order < first.order) first = open;
    }
    return first;
  }

  /** Reserves the least loaded runner for suspects, if no runner is free for them and none is coming. */
  #reserveForIsolation(): void {
    const hasSuspect = [...this.#pending].some(({ isSuspect }) => isSuspect);
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

  /** Drains the runners once nothing more will be sent to them. */
  #drainIfSent(): void {
    if (!this.#isDraining || this.#pending.size > 0) return;
    for (const { state } of this.#open) if (state.segment !== undefined) return;
    if (this.#runners.some(({ isolationRun }) => isolationRun !== undefined)) return;
    for (const runner of this.#runners) {
      if (runner.client === undefined || runner.isDraining) continue;
      runner.isDraining = true;
      runner.client.drain();
    }
  }
}

function runnerFor({ request }: OpenRequest, able: readonly ScheduledRunner[]): ScheduledRunner | undefined {
  return able.length < 2 ? able[0] : bestRunner(able, prefixHashes(request));
}

function runnerCrashed(): GenerationError {
  const message = 'The runner crashes whenever it computes this request; do not send it again.';
  return new GenerationError('RUNNER_CRASHED', message, { retriable: false });
}
