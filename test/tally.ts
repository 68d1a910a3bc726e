import { type ChildProcess, spawn } from 'node:child_process';

/** Runs programs, each in a process group of its own, and adds up their results. */

export interface Outcome {
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
  /** Those that doctest counted. uvu counts none. */
  readonly assertions?: number;
}

export interface Finished {
  readonly code: number | null;
  readonly output: string;
  readonly seconds: string;
}

/** The children that are running. They are killed when this process ends. */
const running = new Set<ChildProcess>();
process.on('exit', () => {
  for (const child of running) killGroup(child);
});

function killGroup({ pid }: ChildProcess): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, 'SIGKILL');
  } catch {
    // The process has just ended.
  }
}

/** The last line of uvu, after all tests of a file. */
const UVU_SUMMARY = /^ {2}Duration: +\S+ms$/m;
/** After its tests a file ends at once, unless something is left open, as after a test that failed. */
const END_MS = 30_000;

/**
 * Never rejects. If the program cannot be started, `code` is null and `output` has the reason. A test file that has told
 * its results has `endMs` to end.
 */
export function run(
  [file = '', ...args]: readonly string[],
  env: NodeJS.ProcessEnv,
  timeoutMs: number,
  endMs = END_MS,
): Promise<Finished> {
  const startedMs = Date.now();
  // The child has a process group of its own, so that whatever a hanging test has started is killed with it.
  const child = spawn(file, args, {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, ...env },
    detached: true,
  });
  const stop = (what: string, afterMs: number): void => {
    output += `\n${what}, ${afterMs / 1000} s: it was killed`;
    killGroup(child);
  };
  const timer = setTimeout(() => stop('timed out', timeoutMs), timeoutMs);
  running.add(child);
  let output = '';
  let ending: NodeJS.Timeout | undefined;
  const collect = (chunk: Buffer): void => {
    output += chunk.toString();
    if (UVU_SUMMARY.test(output))
      ending ??= setTimeout(() => stop('did not end after its tests', endMs), endMs);
  };
  child.stdout.on('data', collect);
  child.stderr.on('data', collect);
  child.on('error', (error) => collect(Buffer.from(String(error))));
  return new Promise((resolve) => {
    child.on('close', (code) => {
      clearTimeout(timer);
      clearTimeout(ending);
      running.delete(child);
      resolve({ code, output, seconds: ((Date.now() - startedMs) / 1000).toFixed(1) });
    });
  });
}

/** For a program that passes if it exits with status 0. */
export function outcomeOfProgram({ code }: Finished): Outcome {
  return { passed: code === 0 ? 1 : 0, failed: code === 0 ? 0 : 1, skipped: 0 };
}

export function outcomeOfUvu({ code, output }: Finished): Outcome {
  const count = (label: string): number => Number(new RegExp(`${label}:\\s+(\\d+)`).exec(output)?.[1] ?? 0);
  const ran = count('Total');
  const passed = count('Passed');
  // A file that exits with 0 without having run or skipped a test has forgotten its `.run()`.
  const isSilent = ran + count('Skipped') === 0;
  const failed = Math.max(ran - passed, code !== 0 || isSilent ? 1 : 0);
  // A test that finds out only while it runs that it cannot run here prints SKIPPED. uvu counts it as passed. A file may
  // also print why uvu skips its tests, more than once and in front of none that ran.
  const said = output.match(/SKIPPED: /g)?.length ?? 0;
  const unknownToUvu = Math.min(passed, Math.max(0, said - count('Skipped')));
  return { passed: passed - unknownToUvu, failed, skipped: count('Skipped') + unknownToUvu };
}

/** ctest counts skipped tests as passed, but names them at its end. */
export function outcomeOfCtest(finished: Finished): Outcome {
  const summary = /(\d+) tests failed out of (\d+)/.exec(finished.output);
  const failed = Number(summary?.[1] ?? 0);
  const total = Number(summary?.[2] ?? 0);
  const skipped = skippedByCtest(finished).length;
  const isBroken = total === 0 || (finished.code !== 0 && failed === 0);
  return { passed: total - failed - skipped, failed: isBroken ? 1 : failed, skipped };
}

/** The names of the tests that ctest names as skipped. */
export function skippedByCtest({ output }: Finished): string[] {
  return [...output.matchAll(/^\s*\d+ - (.*) \((?:Skipped|Disabled)\)$/gm)].map(([, name]) => name as string);
}

export class Tally {
  readonly #failures: string[] = [];
  #passed = 0;
  #failed = 0;
  #skipped = 0;
  #assertions = 0;

  /** Prints a line for the program, and all of its output if it failed. */
  add(
    name: string,
    { passed, failed, skipped, assertions = 0 }: Outcome,
    { output, seconds }: Finished,
  ): void {
    this.#passed += passed;
    this.#failed += failed;
    this.#skipped += skipped;
    this.#assertions += assertions;
    if (failed > 0) this.#failures.push(name);
    const verdict = failed > 0 ? 'FAIL' : 'ok  ';
    const skips = skipped > 0 ? `, ${skipped} skipped` : '';
    console.log(`${verdict} ${name}: ${passed} passed, ${failed} failed${skips} (${seconds} s)`);
    if (failed > 0) console.log(indented(output));
  }

  /** Prints the totals, and sets the exit status of this process. */
  close(seconds: number, numProcessors: number): void {
    if (this.#failures.length > 0) console.log(`\nFailed: ${this.#failures.join(', ')}`);
    const made = this.#assertions > 0 ? `The C++ cases made ${this.#assertions} assertions. ` : '';
    console.log(`\n${made}That took ${minutes(seconds)} on ${numProcessors} processors:`);
    console.log(`${this.#passed} passed, ${this.#failed} failed, ${this.#skipped} skipped`);
    process.exitCode = this.#failed > 0 ? 1 : 0;
  }
}

function minutes(seconds: number): string {
  const whole = Math.round(seconds);
  return `${Math.floor(whole / 60)} min ${whole % 60} s`;
}

export function indented(output: string): string {
  return output.replace(/^/gm, '     ');
}
