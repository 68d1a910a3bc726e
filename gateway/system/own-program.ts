/** Programs of the gateway that run as processes of their own. */
import { type ChildProcess, fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { bundleOf } from '../bundle.js';
import { withSpawnReserve } from './spawn-reserve.ts';

export type OwnProcess = ChildProcess;

export interface OwnProgram {
  readonly file: string;
  /** Of Node. */
  readonly flags: readonly string[];
}

const found = new Map<string, OwnProgram>();

/**
 * How the program is started, determined once, so that a running gateway does not take up half an edit. The first call must come while
 * file descriptors are available: otherwise nothing is found, and Node remembers that. source: where the program lies in the sources.
 */
export function ownProgram(name: Parameters<typeof bundleOf>[0], source: URL): OwnProgram {
  const known = found.get(name);
  if (known !== undefined) return known;
  const bundle = bundleOf(name);
  const program =
    bundle === undefined
      ? // The sources need tsx, even if the gateway itself was started in another way.
        { file: fileURLToPath(source), flags: ['--import', import.meta.resolve('tsx')] }
      : { file: bundle, flags: [] };
  found.set(name, program);
  return program;
}

/**
 * Starts the program. It is spoken to by messages. environment: names of the gateway's variables that it gets; others may be keys.
 * Throws the system's errors, and NoDescriptorsError; other failures are events of the process.
 */
export function startOwn(
  { file, flags }: OwnProgram,
  environment: readonly string[],
  ownFlags: readonly string[] = [],
): OwnProcess {
  const env = Object.fromEntries(environment.map((name) => [name, process.env[name]]));
  const execArgv = [...ownFlags, ...flags];
  return withSpawnReserve(() =>
    fork(file, { execArgv, env, serialization: 'advanced', stdio: ['ignore', 'ignore', 'ignore', 'ipc'] }),
  );
}
