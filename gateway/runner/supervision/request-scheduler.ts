/**
 * Who of the open requests is with the runner: all of them, but for trials. A request that a runner died with is a suspect
 * until it has a new token, and gets it alone: while everybody else waits, the runner is asked for that one token. If the runner
 * dies again it was this request, which is failed and refused from then on. The others lose nothing but time.
 */
import type { RunnerClient } from '../protocol/client.ts';
import { type GenerateRequest, GenerationError, type TokenSink } from '../runner.ts';
import type { RequestInFlight } from './crash.ts';
import { OpenRequest } from './open-request.ts';
import { fingerprintOf, type Quarantine } from './quarantine.ts';

/** Deaths without a new token in between, the last of them alone with the runner. */
export const maxStrikes = 2;

export interface RequestSchedulerEvents {
  /** The last open request has ended. */
  onIdle(): void;
  /** A runner on probation has given somebody a token. */
  onProven(): void;
  onQuarantined(numPromptIds: number, numEmitted: number): void;
}

export class RequestScheduler {
  readonly #quarantine: Quarantine;
  readonly #events: RequestSchedulerEvents;
  /** In the order of their admission, which is the order in which a new runner gets them. */
  readonly #open = new Set<OpenRequest>();
  /** While a runner takes requests. */
  #client: RunnerClient | undefined;
  #trial: OpenRequest | undefined;
  #numOpenTokens = 0;
  /** A trial has ended, perhaps by a Cancel that the runner has not obeyed yet. */
  #isClearing = false;
  #isOnProbation = false;
  #isDraining = false;
  #isEndingAll = false;

  constructor(quarantine: Quarantine, events: RequestSchedulerEvents) {
    this.#quarantine = quarantine;
    this.#events = events;
  }

  get numOpen(): number {
    return this.#open.size;
  }

  /** The open ones, and the cancelled ones that the runner has not let go of. */
  get numHeld(): number {
    return this.#open.size + (this.#client?.numCancelled ?? 0);
  }

  /** Of the prompts of the open ones. */
  get numOpenTokens(): number {
    return this.#numOpenTokens;
  }

  /** Of those that are held. */
  get numHeldTokens(): number {
    return this.#numOpenTokens + (this.#client?.numCancelledTokens ?? 0);
  }

  /** GenerationError for one that has been found to kill runners. */
  assertNotQuarantined(request: GenerateRequest): void {
    if (this.#quarantine.has(request)) throw runnerCrashed();
  }

  admit(request: GenerateRequest, sink: TokenSink): OpenRequest {
    const open = new OpenRequest(request, sink, {
      onEnd: (ended) => this.#onEnd(ended),
      onTrialPassed: () => this.#endTrial(),
    });
    this.#open.add(open);
    this.#numOpenTokens += open.numPromptTokens;
    this.#pump();
    return open;
  }

  /** A runner takes requests. isOnProbation: one of them must get a token before it gets the others. */
  onReady(client: RunnerClient, modelIdentity: string, isOnProbation: boolean): void {
    const message = 'The model file was replaced while the request was open.';
    for (const open of this.#open) {
      if (open.request.modelIdentity === modelIdentity) continue;
      open.fail(new GenerationError('INFERENCE_FAILED', message, { retriable: true }));
    }
    this.#client = client;
    this.#isOnProbation = isOnProbation;
    this.#pump();
  }

  /** The runner holds a cancelled request no longer. */
  onLetGo(): void {
    this.#pump();
  }

  /** Nothing can be asked of the runner any more. */
  onLost(): void {
    this.#client = undefined;
  }

  /** The runner is about to be ended: it has nobody's request any more, and another one will get them. */
  takeBack(): void {
    this.#client = undefined;
    this.#trial = undefined;
    for (const open of this.#open) open.takeBack();
  }

  /** What the runner has, or had when it was lost. */
  inFlight(): RequestInFlight[] {
    return [...this.#open].flatMap((open) => open.inFlight ?? []);
  }

  /** isStrike: what the runner computed may be the cause. */
  onDied(isStrike: boolean): void {
    this.#trial = undefined;
    for (const open of this.#open) open.onRunnerDied(isStrike);
    for (const open of this.#open) if (open.strikes >= maxStrikes) this.#convict(open);
  }

  /** No more requests will be admitted: a runner that has been given all of them is told so. */
  drain(): void {
    this.#isDraining = true;
    this.#pump();
  }

  /** Ends all of them, with the runner too: it would compute on for nobody. */
  failAll(error: GenerationError): void {
    // While they end one by one, none that is still there takes the place of one that has gone.
    this.#isEndingAll = true;
    for (const open of this.#open) {
      open.takeBack();
      open.fail(error);
    }
    this.#isEndingAll = false;
    this.#pump();
  }

  #convict(culprit: OpenRequest): void {
    const { request } = culprit;
    this.#quarantine.add(request);
    // The other choices of the same request would kill one runner each.
    const fingerprint = fingerprintOf(request);
    for (const open of this.#open) {
      const isSame = open === culprit || (open.strikes > 0 && fingerprintOf(open.request) === fingerprint);
      if (!isSame) continue;
      this.#events.onQuarantined(open.numPromptTokens, open.numEmitted);
      open.fail(runnerCrashed());
    }
  }

  #onEnd(ended: OpenRequest): void {
    this.#open.delete(ended);
    this.#numOpenTokens -= ended.numPromptTokens;
    if (ended === this.#trial) this.#endTrial();
    if (this.#open.size === 0) this.#events.onIdle();
  }

  #endTrial(): void {
    const isProof = this.#isOnProbation && (this.#trial?.numEmitted ?? 0) > 0;
    this.#trial = undefined;
    this.#isClearing = true;
    if (isProof) {
      this.#isOnProbation = false;
      this.#events.onProven();
    }
    this.#pump();
  }

  /** Gives the runner what it may have now. */
  #pump(): void {
    const client = this.#client;
    if (client === undefined || this.#trial !== undefined || this.#isEndingAll) return;
    if (this.#isClearing && client.numCancelled > 0) return;
    this.#isClearing = false;
    const candidate = this.#nextTrial();
    if (candidate === undefined) {
      for (const open of this.#open) if (!open.isSent) open.submit(client, { isTrial: false });
      if (this.#isDraining) client.drain();
    } else {
      // Set first: the request may end within submit.
      this.#trial = candidate;
      candidate.submit(client, { isTrial: true });
    }
  }

  /** Suspects come from deaths only: as long as there is one, the runner has nobody's request. */
  #nextTrial(): OpenRequest | undefined {
    for (const open of this.#open) if (open.strikes > 0 || this.#isOnProbation) return open;
    return undefined;
  }
}

function runnerCrashed(): GenerationError {
  const message = 'The runner crashes whenever it computes this request; do not send it again.';
  return new GenerationError('RUNNER_CRASHED', message, { retriable: false });
}
