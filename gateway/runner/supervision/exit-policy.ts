/** Decides from how a runner died what is done about it: the table "Exit statuses" of docs/protocol.md. */
import { lastLineOf } from '../../system/printable.ts';
import type { RunnerCommand, RunnerExit } from '../process/process.ts';
import type { Failure, Phase } from '../protocol/from-runner.ts';
import type { RequestFacts } from './open-request.ts';

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
  readonly stderrTail: string;
  /** How long it had been ready; undefined: it was never ready. */
  readonly readyForMs: number | undefined;
  /** What it was doing, as last heard; undefined: no heartbeat came. */
  readonly phase: Phase | undefined;
  readonly step: number;
  /** The kernel's OOM killer has killed a process of ours during this runner's life. */
  readonly isOutOfMemory: boolean;
}

export interface Crash {
  readonly kind: string;
  /** More crashes of this kind within kindWindowMs open the breaker; absent: the kind has no limit of its own. */
  readonly maxOfKind?: number;
}

export interface ExitPolicy {
  /** wait_for_file: the same file would give the same result, so the next attempt waits until the file changes. */
  readonly action: 'restart' | 'wait_for_file' | 'fail';
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
const usage = { ...crash('usage'), action: 'fail' } as const;
const model = { ...crash('model'), action: 'wait_for_file' } as const;

interface Ending {
  /** To be put after "The runner exited" or "was ended". */
  readonly meaning: string;
  /** Absent: a crash. */
  readonly policy?: Omit<ExitPolicy, 'reason'>;
}

/** What is known of statuses and signals. */
const endings: ReadonlyMap<number | string | undefined, Ending> = new Map<number | string, Ending>([
  [64, { meaning: 'a flag or value of its command line is wrong', policy: usage }],
  [65, { meaning: 'the model file is damaged or not supported', policy: model }],
  [66, { meaning: 'the model file is missing', policy: model }],
  [69, { meaning: 'its device does not answer', policy: { ...surroundings, isOfDevice: true } }],
  [70, { meaning: 'it noticed a broken invariant' }],
  [71, { meaning: 'the system refused memory, descriptors or threads', policy: surroundings }],
  [74, { meaning: 'its output was gone' }],
  [75, { meaning: 'it asked to be started again', policy: { ...surroundings, isTriedAgain: true } }],
  [76, { meaning: 'its input carried something that is not the protocol' }],
  [77, { meaning: 'the model file is not readable', policy: model }],
  [78, { meaning: 'its configuration is wrong', policy: usage }],
  [
    79,
    {
      meaning: 'its device must not be used any more by the same process',
      policy: { ...crash('device', 1), isOfDevice: true },
    },
  ],
  ['SIGBUS', { meaning: 'the model file was cut short, or could not be read', policy: crash('bus', 1) }],
  ['SIGILL', { meaning: 'this processor lacks an instruction', policy: crash('instruction', 1) }],
  // Either an exploit or a missing sandbox rule. The same file is not tried again, whichever it was.
  [
    'SIGSYS',
    {
      meaning: 'it tried what its sandbox forbids',
      policy: { ...crash('sandbox'), action: 'wait_for_file' },
    },
  ],
]);

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
  // Before Ready, status 71 means that the model does not fit the device.
  if (exit.code === 71) return { ...surroundings, isOfDevice: death.readyForMs === undefined };
  if (exit.signal === 'SIGKILL') return judgeKill(death);
  return endings.get(exit.code ?? exit.signal)?.policy ?? crash(exit.signal ?? `status ${exit.code}`);
}

function judgeKill({ isOutOfMemory, readyForMs }: Death): Omit<ExitPolicy, 'reason'> {
  // The KV cache is allocated before Ready, so no request makes a runner outgrow its memory.
  if (isOutOfMemory) return { ...crash('memory', 2), countsForRequests: false };
  // A SIGKILL from outside says nothing about the requests or the next start. Before Ready it may come again and again from a
  // daemon that watches the memory, so it delays the next start.
  return { ...surroundings, countsForBackoff: readyForMs === undefined, countsForStarts: false };
}

function sentenceOf({ exit, failure, stderrTail, isOutOfMemory }: Death): string {
  if (exit.spawnError !== undefined) return `The runner could not be started: ${exit.spawnError}`;
  if (exit.signal === 'SIGKILL' && isOutOfMemory) return outOfMemory;
  const meaning = endings.get(exit.code ?? exit.signal)?.meaning;
  const why = meaning === undefined ? '' : `: ${meaning}`;
  if (exit.signal !== undefined) return `The runner was ended by ${exit.signal}${why}.`;
  if (failure !== undefined && failure.message !== '' && failure.exitCode === exit.code)
    return failure.message;
  if (exit.code === 0) return 'The runner exited with status 0 without being asked to.';
  // A wrong command line ends the runner before it writes frames, so its stderr has the reason.
  const lastLine = lastLineOf(stderrTail);
  if (exit.code === 64 && lastLine !== '') return lastLine;
  return `The runner exited with status ${exit.code}${why}.`;
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
  readonly requests: readonly RequestFacts[];
}

/** The kind of the crash in one word, from a small set: a metric's label. */
export function crashKind({ death: { verdict, exit, isOutOfMemory } }: RunnerCrash): string {
  if (verdict !== undefined) return verdict.kind;
  if (exit.spawnError !== undefined) return 'spawn';
  if (exit.signal === 'SIGKILL' && isOutOfMemory) return 'memory';
  return exit.signal ?? `status_${exit.code}`;
}
