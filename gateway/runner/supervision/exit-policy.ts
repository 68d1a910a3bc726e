/**
 * From how a runner died to what is done about it: the table "Exit statuses" of docs/protocol.md.
 */

import type { RunnerExit } from '../process/process.ts';
import type { Failure, Phase } from '../protocol/messages.ts';
import type { Crash } from './breaker.ts';

/**
 * violation: it broke the protocol. version: it speaks another one. timeout: it did not start, load or exit in time. hung: a
 * step did not end, or was not begun. silent: no heartbeat came. canary: it could not compute one token. internal: the gateway
 * failed at what it said.
 */
export type VerdictKind = 'violation' | 'version' | 'timeout' | 'hung' | 'silent' | 'canary' | 'internal';

export interface Death {
  readonly exit: RunnerExit;
  /** Why the gateway itself ended the runner, as a sentence. */
  readonly verdict: { readonly kind: VerdictKind; readonly sentence: string } | undefined;
  /** The runner's last words, if it chose to exit. */
  readonly failure: Failure | undefined;
  /** The last lines of its stderr. */
  readonly stderrTail: string;
  /** How long it had been ready; undefined: it never was. */
  readonly readyForMs: number | undefined;
  /** What it was doing, as last heard; undefined: it has said nothing. */
  readonly phase: Phase | undefined;
  /** The last one that was heard of. */
  readonly step: number;
  /** The kernel has killed something of ours for want of memory meanwhile. */
  readonly isOutOfMemory: boolean;
}

export interface ExitPolicy {
  /** wait_for_file: the same file gives the same result, so another attempt waits for another file. */
  readonly action: 'restart' | 'wait_for_file' | 'fail';
  /** Whether the death counts for the delay of the next start. */
  readonly countsForBackoff: boolean;
  /** Whether a start that ends so came to nothing by itself: after a few of these, requests wait no longer. */
  readonly countsForStarts: boolean;
  /** Whether what the runner computed may be the cause: the requests it had become suspects. */
  readonly countsForRequests: boolean;
  /** How it counts for the breaker; undefined: not at all. */
  readonly crash: Crash | undefined;
  /** Whether the same start, tried again, may well come to more: it is, even in place of a runner that could be gone back to. */
  readonly isTriedAgain: boolean;
  /** Whether the device it computes on is at fault, so that a runner on another one is of use. */
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

/** What is around the runner is at fault: neither a request nor the runner itself. */
const surroundings = { ...crash('surroundings'), countsForRequests: false, crash: undefined };

function judge(death: Death): Omit<ExitPolicy, 'reason'> {
  const { exit, verdict } = death;
  if (verdict !== undefined) {
    return {
      ...crash(verdict.kind),
      action: verdict.kind === 'version' ? 'fail' : 'restart',
      // A machine that was paused, or starved of its processor, is silent whatever was computed.
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
      // Before Ready it is the model that does not fit.
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
      // An exploit, or a rule that is missing: whatever was asked of it is not asked again of the same file.
      return { ...crash('sandbox'), action: 'wait_for_file' };
  }
  return crash(exit.signal ?? `status ${exit.code}`);
}

function judgeKill({ isOutOfMemory, readyForMs }: Death): Omit<ExitPolicy, 'reason'> {
  // The KV cache is allocated before Ready: no request makes a runner outgrow its memory.
  if (isOutOfMemory) return { ...crash('memory', 2), countsForRequests: false };
  // Somebody's kill -9 says nothing about the requests, nor about what the next start will come to. Before Ready it may be one of
  // a loop, by a daemon that watches the memory: then starts are delayed.
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
  // A command line that does not parse ends the runner before it speaks in frames.
  const lastLine = stderrTail.trimEnd().split('\n').at(-1) ?? '';
  if (exit.code === 64 && lastLine !== '') return lastLine;
  return `The runner exited with status ${exit.code}${meaningOf(statusMeanings.get(exit.code ?? -1))}.`;
}

/** What a runner that could not load its model says beside the sentence. */
export interface LoadFacts {
  readonly device?: string;
  /** Where memory was missing, as far as it is known. */
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
