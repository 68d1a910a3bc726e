import { type Finished, type Outcome, run } from './tally.ts';

/**
 * Runs the programs of C++ tests. A program runs in a few processes, each with a part of its cases, since a process for
 * each case would cost more than most cases. Every case is counted: test/doctest_main.cc writes a line when a case
 * begins and one when it has ended. Those that a process which dies has not ended have failed.
 */

const NUM_PARTS = 8;

export interface Part {
  /** The program's cases first, first + 1, ... last, counted from 1. */
  readonly first: number;
  readonly last: number;
}

export interface CasesOutcome extends Outcome {
  readonly assertions: number;
  /** The names of these cases. */
  readonly namesOfFailed: readonly string[];
  readonly namesOfSkipped: readonly string[];
}

/** A program with its options, such as those that choose cases. */
export type Command = readonly [program: string, ...options: string[]];

/** One empty part if the program does not say how many cases it has. */
export async function partsOf(command: Command, timeoutMs: number): Promise<Part[]> {
  const { output } = await run([...command, '--count', '--no-colors'], {}, timeoutMs);
  const numCases = Number(/test cases passing the current filters: (\d+)/.exec(output)?.[1] ?? 0);
  return numCases === 0 ? [{ first: 1, last: 0 }] : split(numCases);
}

/** Parts whose sizes differ by one at most, together all of the cases. */
export function split(numCases: number): Part[] {
  const numParts = Math.min(NUM_PARTS, numCases);
  const beginOf = (index: number) => Math.floor((index * numCases) / numParts);
  return Array.from({ length: numParts }, (_, index) => ({
    first: beginOf(index) + 1,
    last: beginOf(index + 1),
  }));
}

export function runPart(
  command: Command,
  { first, last }: Part,
  env: NodeJS.ProcessEnv,
  timeoutMs: number,
): Promise<Finished> {
  const options = ['--reporters=console,cases', '--no-colors', `--first=${first}`, `--last=${last}`];
  return run([...command, ...options], env, timeoutMs);
}

export function outcomeOfPart({ first, last }: Part, { code, output }: Finished): CasesOutcome {
  const ended: Record<string, string[]> = { passed: [], failed: [], skipped: [] };
  let name: string | undefined;
  for (const [, line = ''] of output.matchAll(/^\[case\] (.*)$/gm)) {
    if (line.startsWith('begins: ')) {
      name = line.slice('begins: '.length);
    } else {
      ended[line]?.push(name ?? '');
      name = undefined;
    }
  }
  const { passed = [], failed = [], skipped = [] } = ended;
  if (name !== undefined) failed.push(`${name} (did not end)`);
  const numCases = last - first + 1;
  for (let i = passed.length + failed.length + skipped.length; i < numCases; ++i)
    failed.push('a case that did not run');
  // A program that has no cases, or ends with an error after its last one, as a leak makes it, has failed.
  if (failed.length === 0 && (code !== 0 || numCases === 0)) failed.push(`a program that ended with ${code}`);
  return {
    passed: passed.length,
    failed: failed.length,
    skipped: skipped.length,
    // A program that dies has not said it.
    assertions: Number(/^\[doctest\] assertions: +(\d+)/m.exec(output)?.[1] ?? 0),
    namesOfFailed: failed,
    namesOfSkipped: skipped,
  };
}

/** The outcome of a program, from those of its parts. */
export function together(parts: readonly CasesOutcome[]): CasesOutcome {
  const sum = (count: (part: CasesOutcome) => number) =>
    parts.reduce((total, part) => total + count(part), 0);
  return {
    passed: sum(({ passed }) => passed),
    failed: sum(({ failed }) => failed),
    skipped: sum(({ skipped }) => skipped),
    assertions: sum(({ assertions }) => assertions),
    namesOfFailed: parts.flatMap(({ namesOfFailed }) => namesOfFailed),
    namesOfSkipped: parts.flatMap(({ namesOfSkipped }) => namesOfSkipped),
  };
}
