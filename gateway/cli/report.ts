/**
 * How commands fail: with an exit status and a sentence on stderr, or several sentences for a command line with several faults.
 */
import { RefusedError } from '../client/server.ts';
import { BindError, ExitCode, UsageError } from '../errors/exit-code.ts';
import { ModelFileError, UnavailableError } from '../errors/thrown.ts';
import { JournalError } from '../journal/journal-error.ts';
import { PullError } from '../models/pull-report.ts';
import { DescriptorsError } from '../server/descriptor-budget.ts';
import { NoDescriptorsError } from '../system/spawn-reserve.ts';

/**
 * Runs a command and returns its exit status. An expected error becomes its sentences and its exit status; any other error is
 * thrown. tell: called with each sentence.
 */
export async function reporting(
  command: () => Promise<number>,
  tell: (sentence: string) => void = tellStderr,
): Promise<number> {
  try {
    return await command();
  } catch (error) {
    const exitCode = exitCodeOf(error);
    if (exitCode === undefined) throw error;
    for (const sentence of (error as Error).message.split('\n')) tell(sentence);
    return exitCode;
  }
}

export function tellStderr(sentence: string): void {
  process.stderr.write(`runnel: ${sentence}\n`);
}

function exitCodeOf(error: unknown): number | undefined {
  if (error instanceof ModelFileError || error instanceof PullError || error instanceof RefusedError)
    return error.exitCode;
  if (error instanceof UsageError) return ExitCode.usage;
  if (error instanceof BindError) return ExitCode.bindFailed;
  if (error instanceof UnavailableError) return ExitCode.unavailable;
  if (error instanceof DescriptorsError || error instanceof NoDescriptorsError) return ExitCode.system;
  if (error instanceof JournalError) return ExitCode.system;
  if (!(error instanceof Error) || !('code' in error) || typeof error.code !== 'string') return undefined;
  if (error.code.startsWith('ERR_PARSE_ARGS')) return ExitCode.usage;
  switch (error.code) {
    case 'ENOENT':
    case 'ENOTDIR':
    case 'EISDIR':
      return ExitCode.noFile;
    case 'EACCES':
    case 'EPERM':
      return ExitCode.noPermission;
    default:
      return 'syscall' in error ? ExitCode.system : undefined;
  }
}
