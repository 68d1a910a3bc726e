import { messageOf } from '../errors/thrown.ts';
import type { ObservedRequest, RequestObserver } from './observed-runner.ts';
import type { GenerateRequest, Runner, RunnerInfo, TokenBatch } from './runner.ts';

/**
 * Audits: a share of the answers is computed again by a runner of its own, when they have ended, and compared. The same request gives
 * the same tokens everywhere, so a token that differs means that memory, a device or its driver is at fault.
 */

/** The most answers that wait for their audit; more than these are skipped. */
export const MAX_WAITING_AUDITS = 16;

/** For so long no auditor is started after one could not be; twice as long after each failure more, up to the second. */
export const firstPauseMs = 5_000;
export const maxPauseMs = 600_000;

/** skipped: too many others waited. unverifiable: nothing here computes the answer again. */
export const auditResults = ['equal', 'differs', 'unverifiable', 'skipped'] as const;
export type AuditResult = (typeof auditResults)[number];

export interface AuditsOptions {
  /** The share of the answers that is audited, from 0 to 1. */
  readonly share: number;
  /** A number from 0 on and below 1. */
  readonly random: () => number;
  /** The runner whose answers are audited; undefined before it is ready for the first time. */
  readonly audited: () => RunnerInfo | undefined;
  /** The runner that audits answers of this one, when it is ready. Rejects with an Error if there is none. */
  readonly auditor: (audited: RunnerInfo) => Promise<Runner>;
  /** By a monotonic clock. */
  readonly now: () => number;
  /** reason: a sentence, unless the tokens are equal. It has no content of prompt or answer. */
  readonly onAudited: (result: AuditResult, reason: string) => void;
}

/** Why there is no auditor of a model. */
interface Failure {
  readonly modelIdentity: string;
  readonly error: unknown;
  readonly pauseMs: number;
  readonly untilMs: number;
}

interface Answer {
  readonly request: GenerateRequest;
  /** The runner that computed it. */
  readonly info: RunnerInfo;
  readonly tokenIds: readonly number[];
}

export class Audits implements RequestObserver {
  readonly #options: AuditsOptions;
  /** The tokens so far of open answers that will be audited. */
  readonly #open = new WeakMap<ObservedRequest, number[]>();
  readonly #waiting: Answer[] = [];
  #isAuditing = false;
  #failure: Failure | undefined;

  constructor(options: AuditsOptions) {
    this.#options = options;
  }

  onAdmitted(observed: ObservedRequest): void {
    const { pooling, resumeFrom } = observed.request;
    // The beginning of a resumed answer may be of other arithmetic.
    if (pooling !== undefined || resumeFrom !== undefined) return;
    if (this.#options.random() < this.#options.share) this.#open.set(observed, []);
  }

  onTokens(observed: ObservedRequest, { tokenIds, continuedBy }: TokenBatch): void {
    if (continuedBy !== undefined) this.#open.delete(observed);
    const before = this.#open.get(observed);
    if (before !== undefined) for (const id of tokenIds) before.push(id);
  }

  onEnd(observed: ObservedRequest): void {
    const tokenIds = this.#open.get(observed);
    this.#open.delete(observed);
    if (tokenIds === undefined || tokenIds.length === 0) return;
    const info = this.#options.audited();
    if (info === undefined) return;
    if (this.#waiting.length >= MAX_WAITING_AUDITS) {
      this.#options.onAudited('skipped', `${MAX_WAITING_AUDITS} answers wait for their audit.`);
      return;
    }
    this.#waiting.push({ request: observed.request, info, tokenIds });
    if (!this.#isAuditing) void this.#auditAll();
  }

  /** One after the other, so that audits take no more than one request's part of the machine. */
  async #auditAll(): Promise<void> {
    this.#isAuditing = true;
    for (let answer = this.#waiting.shift(); answer !== undefined; answer = this.#waiting.shift())
      this.#options.onAudited(...(await this.#audit(answer)));
    this.#isAuditing = false;
  }

  async #audit({ request, info, tokenIds }: Answer): Promise<[AuditResult, string]> {
    let again: readonly number[];
    try {
      const runner = await this.#auditorOf(info);
      const here = runner.status().info?.numericsId;
      if (here !== info.numericsId)
        return [
          'unverifiable',
          `The answer is of the numerics ${info.numericsId}; the auditor's are ${here}.`,
        ];
      again = await computeAgain(runner, request, tokenIds.length);
    } catch (error) {
      return ['unverifiable', `An answer cannot be computed again: ${messageOf(error)}`];
    }
    const position = tokenIds.findIndex((id, index) => id !== again[index]);
    if (position < 0) return ['equal', ''];
    return [
      'differs',
      `An answer of ${tokenIds.length} tokens to a prompt of ${request.promptIds.length}, computed on ${info.device}, differs from the token ${position} on (from 0) from what the CPU computes.`,
    ];
  }

  async #auditorOf(info: RunnerInfo): Promise<Runner> {
    const { auditor, now } = this.#options;
    const { modelIdentity } = info;
    const before = this.#failure?.modelIdentity === modelIdentity ? this.#failure : undefined;
    if (before !== undefined && now() < before.untilMs) throw before.error;
    try {
      const runner = await auditor(info);
      this.#failure = undefined;
      return runner;
    } catch (error) {
      const pauseMs = before === undefined ? firstPauseMs : Math.min(maxPauseMs, 2 * before.pauseMs);
      this.#failure = { modelIdentity, error, pauseMs, untilMs: now() + pauseMs };
      throw error;
    }
  }
}

/** The tokens of the answer, as many as it has. Rejects with GenerationError. */
function computeAgain(
  runner: Runner,
  request: GenerateRequest,
  numTokens: number,
): Promise<readonly number[]> {
  const { promptIds, modelIdentity, stopIds, sampling, grammar, vocabulary, thinkingLimit } = request;
  const again: GenerateRequest = {
    ...{ promptIds, modelIdentity, stopIds, sampling },
    maxTokens: numTokens,
    minTokens: Math.min(request.minTokens, numTokens),
    cacheSalt: new Uint8Array(),
    ...(grammar && vocabulary && { grammar, vocabulary }),
    ...(thinkingLimit && { thinkingLimit }),
  };
  const tokenIds: number[] = [];
  return new Promise((resolve, reject) => {
    runner.generate(again, {
      onTokens: (batch) => {
        for (const id of batch.tokenIds) tokenIds.push(id);
        if (batch.finish !== undefined) resolve(tokenIds);
      },
      onError: reject,
    });
  });
}
