/** How one-shot commands fail: one sentence on stderr and an exit code of sysexits.h. */
import { ModelFileError } from '../model/model-file-error.ts';
import { PullError } from '../model/pull-error.ts';

export const exitCodes = { ok: 0, usage: 64, noFile: 66, system: 71, noPermission: 77 } as const;

/** A command line that cannot be obeyed; the message says why and how it is meant. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

/** Runs a command; an error that it expects becomes a sentence and an exit code, any other one is thrown. */
export async function reporting(command: () => Promise<void>): Promise<number> {
  try {
    await command();
    return exitCodes.ok;
  } catch (error) {
    const exitCode = exitCodeOf(error);
    if (exitCode === undefined) throw error;
    process.stderr.write(`${(error as Error).message}\n`);
    return exitCode;
  }
}

function exitCodeOf(error: unknown): number | undefined {
  if (error instanceof ModelFileError || error instanceof PullError) return error.exitCode;
  if (error instanceof UsageError) return exitCodes.usage;
  if (!(error instanceof Error) || !('code' in error) || typeof error.code !== 'string') return undefined;
  if (error.code.startsWith('ERR_PARSE_ARGS')) return exitCodes.usage;
  switch (error.code) {
    case 'ENOENT':
    case 'ENOTDIR':
    case 'EISDIR':
      return exitCodes.noFile;
    case 'EACCES':
    case 'EPERM':
      return exitCodes.noPermission;
    default:
      return 'syscall' in error ? exitCodes.system : undefined;
  }
}
