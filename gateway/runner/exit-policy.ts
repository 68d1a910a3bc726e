/**
 * From how a runner died to what is done about it: the table "Exit statuses" of docs/protocol.md.
 */
import type { Failure } from './messages.ts';
import type { RunnerExit } from './process.ts';

export interface Death {
  readonly exit: RunnerExit;
  /** Why the gateway itself ended the runner, as a sentence. */
  readonly verdict:
    | { readonly kind: 'violation' | 'version' | 'timeout'; readonly sentence: string }
    | undefined;
  /** The runner's last words, if it chose to exit. */
  readonly failure: Failure | undefined;
  /** The last lines of its stderr. */
  readonly stderrTail: string;
  /** How long it had been ready; undefined: it never was. */
  readonly readyForMs: number | undefined;
}

export interface ExitPolicy {
  /** wait_for_file: the same file gives the same result, so another attempt waits for another file. */
  readonly action: 'restart' | 'wait_for_file' | 'fail';
  /** Whether the death counts for the delay of the next start, and against the requests it interrupted. */
  readonly countsForBackoff: boolean;
  readonly countsForRequests: boolean;
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
  [76, 'its input carried something that is not the protocol'],
  [77, 'the model file is not readable'],
]);

export function exitPolicy(death: Death): ExitPolicy {
  const { exit, verdict } = death;
  const reason = verdict?.sentence ?? sentenceOf(death);
  const counted = { countsForBackoff: true, countsForRequests: true, reason };
  if (verdict?.kind === 'version') return { action: 'fail', ...counted };
  if (verdict !== undefined) return { action: 'restart', ...counted };
  switch (exit.code) {
    case 64:
      return { action: 'fail', ...counted };
    case 65:
    case 66:
    case 77:
      return { action: 'wait_for_file', ...counted };
  }
  // Somebody's kill -9 says nothing about the requests. It says nothing about the runner either once that was ready;
  // before, it may be the kernel short of memory, in a loop.
  const isKilledFromOutside = exit.signal === 'SIGKILL';
  return {
    action: 'restart',
    countsForBackoff: !isKilledFromOutside || death.readyForMs === undefined,
    countsForRequests: !isKilledFromOutside,
    reason,
  };
}

function sentenceOf({ exit, failure, stderrTail }: Death): string {
  if (exit.spawnError !== undefined) return `The runner could not be started: ${exit.spawnError}`;
  if (exit.signal !== undefined) return `The runner was ended by ${exit.signal}.`;
  if (failure !== undefined && failure.message !== '' && failure.exitCode === exit.code)
    return failure.message;
  if (exit.code === 0) return 'The runner exited with status 0 without being asked to.';
  // A command line that does not parse ends the runner before it speaks in frames.
  const lastLine = stderrTail.trimEnd().split('\n').at(-1) ?? '';
  if (exit.code === 64 && lastLine !== '') return lastLine;
  const meaning = statusMeanings.get(exit.code ?? -1);
  return `The runner exited with status ${exit.code}${meaning === undefined ? '' : `: ${meaning}`}.`;
}
