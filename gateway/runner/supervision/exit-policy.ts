/** Decides from how a runner died what is done about it: the table "Exit statuses" of docs/protocol.md. */
import type { RunnerCommand, RunnerExit } from '../process/process.ts';
import type { Failure, Phase } from '../protocol/from-runner.ts';

/**
 * Why the gateway ended a runner. violation: it broke the protocol. version: it speaks another version of it. timeout: it did
 * not start, load or exit in time. hung: a step did not end or did not begin. silent: no heartbeat came. canary: it did not
 * answer the canary. internal: the gateway threw while it handled a frame.
 */
export type VerdictKind = 'violation' | 'version' | 'timeout' | 'hung' | 'silent' | 'canary' | 'internal';

export interface Death {
  readonly exit: RunnerExit;
  /** Set if the gateway itself ended the runner. sentence: why. */
  readonly verdict: { readonly kind: VerdictKind; readonly sentence: string } | undefined;
  /** The runner's last frame, if it exited by its own decision. */
  readonly failure: Failure | undefined;
  /** The last lines of its stderr. */
  readonly stderrTail: string;
  /** How long it had been ready; undefined: it was never ready. */
  readonly readyForMs: number | undefined;
  /** What it was doing, as last heard; undefined: no heartbeat came. */
  readonly phase: Phase | undefined;
  /** The last step that the gateway heard of. */
  readonly step: number;
  /** It has made a token for a request. */
  readonly hasTokens: boolean;
  /** The kernel's OOM killer has killed a process of ours during this runner's life. */
  readonly isOutOfMemory: boolean;
}

/** How a death counts for the breaker. */
export interface Crash {
  /** Crashes of the same kind are counted together. */
  readonly kind: string;
  /** More crashes of this kind within kindWindowMs open the breaker; absent: the kind has no limit of its own. */
  readonly maxOfKind?: number;
}

export interface ExitPolicy {
  /** wait_for_file: the same file would give the same result, so the next attempt waits until the file changes. */
  readonly action: 'restart' | 'wait_for_file' | 'fail';
  /** Whether the death counts for the delay of the next start. */
  readonly countsForBackoff: boolean;
  /**
   * Whether a death before Ready counts as a failed start. After maxFruitlessStarts of them in a row, requests are refused
   * instead of waiting.
   */
  readonly countsForStarts: boolean;
  /** Whether what the runner computed may be the cause; if so, its requests become suspects. */
  readonly countsForRequests: boolean;
  /** Undefined: the death does not count for the breaker. */
  readonly crash: Crash | undefined;
  /**
   * Whether the same start may well succeed if repeated. During a replacement it is repeated before the old spec is followed
   * again.
   */
  readonly isTriedAgain: boolean;
  /** Whether the runner's device is at fault, so that a runner on another device may work. */
  readonly isOfDevice: boolean;
  readonly reason: string;
}

const statusMeanings: ReadonlyMap<number, string> = new Map([
  [64, 'a flag or value of its command line is wrong'],
  [65, 'the model file is damaged or not supported'],
  [66, 'the model file is missing'],
  [69, 'its device does not answer'],
  [70, 'it noticed a broken invariant'],
  [71, 'the system refused memory, descriptors or threads'],
  [74, 'its output was gone'],
  [75, 'it asked to be started again'],
  [76, 'its input carried something that is not the protocol'],
  [77, 'the model file is not readable'],
  [78, 'its configuration is wrong'],
  [79, 'its device must not be used any more by the same process'],
]);

const signalMeanings: ReadonlyMap<string, string> = new Map([
  ['SIGBUS', 'the model file was cut short, or could not be read'],
  ['SIGILL', 'this processor lacks an instruction'],
  ['SIGSYS', 'it tried what its sandbox forbids'],
]);

const outOfMemory =
  'The kernel killed the runner because memory ran out. ' +
  'Give it less to hold (--kv-cache-bytes, --max-model-len), or the machine more memory.';

export function exitPolicy(death: Death): ExitPolicy {
  const reason = death.verdict?.sentence ?? sentenceOf(death);
  return { reason, ...judge(death) };
}

const crash = (kind: string, maxOfKind?: number): Omit<ExitPolicy, 'reason'> => ({
  action: 'restart',
  countsForBackoff: true,
  countsForStarts: true,
  countsForRequests: true,
  crash: maxOfKind === undefined ? { kind } : { kind, maxOfKind },
  isTriedAgain: false,
  isOfDevice: false,
});

/** The runner's surroundings are at fault: neither its requests nor the runner itself. */
const surroundings = { ...crash('surroundings'), countsForRequests: false, crash: undefined };

function judge(death: Death): Omit<ExitPolicy, 'reason'> {
  const { exit, verdict } = death;
  if (verdict !== undefined) {
    return {
      ...crash(verdict.kind),
      action: verdict.kind === 'version' ? 'fail' : 'restart',
      // A machine that was paused, or had no processor time, makes a runner silent whatever it computes.
      countsForRequests: verdict.kind !== 'silent',
    };
  }
  if (exit.spawnError !== undefined) return surroundings;
  switch (exit.code) {
    case 64:
    case 78:
      return { ...crash('usage'), action: 'fail' };
    case 65:
    case 66:
    case 77:
      return { ...crash('model'), action: 'wait_for_file' };
    case 69:
      return { ...surroundings, isOfDevice: true };
    case 71:
      // Before Ready, status 71 means that the model does not fit the device.
      return { ...surroundings, isOfDevice: death.readyForMs === undefined };
    case 75:
      return { ...surroundings, isTriedAgain: true };
    case 79:
      return { ...crash('device', 1), isOfDevice: true };
  }
  switch (exit.signal) {
    case 'SIGKILL':
      return judgeKill(death);
    case 'SIGBUS':
      return crash('bus', 1);
    case 'SIGILL':
      return crash('instruction', 1);
    case 'SIGSYS':
      // Either an exploit or a missing sandbox rule. The same file is not tried again, whichever it was.
      return { ...crash('sandbox'), action: 'wait_for_file' };
  }
  return crash(exit.signal ?? `status ${exit.code}`);
}

function judgeKill({ isOutOfMemory, readyForMs }: Death): Omit<ExitPolicy, 'reason'> {
  // The KV cache is allocated before Ready, so no request makes a runner outgrow its memory.
  if (isOutOfMemory) return { ...crash('memory', 1), countsForRequests: false };
  // A SIGKILL from outside says nothing about the requests or the next start. Before Ready it may come again and again from a
  // daemon that watches the memory, so it delays the next start.
  return { ...surroundings, countsForBackoff: readyForMs === undefined, countsForStarts: false };
}

function sentenceOf({ exit, failure, stderrTail, isOutOfMemory }: Death): string {
  if (exit.spawnError !== undefined) return `The runner could not be started: ${exit.spawnError}`;
  if (exit.signal === 'SIGKILL' && isOutOfMemory) return outOfMemory;
  if (exit.signal !== undefined)
    return `The runner was ended by ${exit.signal}${meaningOf(signalMeanings.get(exit.signal))}.`;
  if (failure !== undefined && failure.message !== '' && failure.exitCode === exit.code)
    return failure.message;
  if (exit.code === 0) return 'The runner exited with status 0 without being asked to.';
  // A wrong command line ends the runner before it writes frames, so its stderr has the reason.
  const lastLine = stderrTail.trimEnd().split('\n').at(-1) ?? '';
  if (exit.code === 64 && lastLine !== '') return lastLine;
  return `The runner exited with status ${exit.code}${meaningOf(statusMeanings.get(exit.code ?? -1))}.`;
}

/** What a runner that could not load its model reports beside the sentence. */
export interface LoadFacts {
  readonly device?: string;
  /** Set only where memory was missing. availableBytes may be unknown even then. */
  readonly requiredBytes?: number;
  readonly availableBytes?: number;
}

export function loadFacts({ exit, failure, readyForMs }: Death): LoadFacts {
  if (readyForMs !== undefined || failure === undefined || failure.exitCode !== exit.code) return {};
  const { device, requiredBytes, availableBytes } = failure;
  return {
    ...(device === '' ? {} : { device }),
    ...(requiredBytes === undefined ? {} : { requiredBytes }),
    ...(availableBytes === undefined ? {} : { availableBytes }),
  };
}

function meaningOf(meaning: string | undefined): string {
  return meaning === undefined ? '' : `: ${meaning}`;
}

/** A request that a runner had when it died: its parameters and sizes, without any text. */
export interface RequestInFlight {
  /** The id of the request in that runner's frames and recordings. */
  readonly requestId: number;
  readonly numPromptTokens: number;
  readonly numEmitted: number;
  /** Runners that died on it before, without a token in between. */
  readonly crashCount: number;
  readonly maxTokens: number;
  readonly temperature: number;
  readonly topK: number;
  readonly topP: number;
  readonly minP: number;
  readonly repetitionPenalty: number;
  readonly presencePenalty: number;
  readonly frequencyPenalty: number;
  readonly numBiases: number;
  readonly numAllowedTokens: number;
  readonly numBannedTokens: number;
  readonly seed: bigint;
}

/** A death of a runner that nobody asked for. */
export interface RunnerCrash {
  /** Index of the runner in its pool, from 0; absent if there is only one. */
  readonly runner?: number;
  readonly pid: number | undefined;
  /** Number of this start among the starts in the same place of the pool, from 1. */
  readonly start: number;
  readonly command: RunnerCommand;
  readonly death: Death;
  /** Why the runner died, as a sentence: the reason of its ExitPolicy. */
  readonly message: string;
  /** This and the next two are undefined until the runner has said them. */
  readonly build: string | undefined;
  readonly numericsId: string | undefined;
  readonly modelIdentity: string | undefined;
  readonly requests: readonly RequestInFlight[];
}

/** The kind of the crash in one word, from a small set: a metric's label. */
export function crashKind({ death: { verdict, exit, isOutOfMemory } }: RunnerCrash): string {
  if (verdict !== undefined) return verdict.kind;
  if (exit.spawnError !== undefined) return 'spawn';
  if (exit.signal === 'SIGKILL' && isOutOfMemory) return 'memory';
  return exit.signal ?? `status_${exit.code}`;
}
