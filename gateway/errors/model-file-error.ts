import { EndOfFileError } from '../models/file-window.ts';
import { GgufError } from '../models/gguf.ts';
import { FolderError } from '../models/huggingface/folder-error.ts';
import { MetadataError } from '../models/metadata.ts';
import { TokenizerError } from '../tokenizer/tokenizer-error.ts';

/** Why a model file cannot be used. The message is a sentence that names the path and the fault. */
export class ModelFileError extends Error {
  override readonly name = 'ModelFileError';
  /** As in sysexits.h: 65 damaged or not supported, 66 not there or not a regular file, 77 not readable. */
  readonly exitCode: 65 | 66 | 77;

  constructor(exitCode: 65 | 66 | 77, message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.exitCode = exitCode;
  }
}

/** What reading a file failed with, as a sentence that names the file; an error that is none of a file's as it is. */
export function asModelFileError(path: string, error: unknown): unknown {
  if (error instanceof ModelFileError) return error;
  const cause = { cause: error };
  if (
    error instanceof GgufError ||
    error instanceof EndOfFileError ||
    error instanceof MetadataError ||
    error instanceof TokenizerError ||
    error instanceof FolderError
  ) {
    return new ModelFileError(65, `The model ${path} cannot be used: ${error.message}.`, cause);
  }
  switch (errorCodeOf(error)) {
    case 'ENOENT':
    case 'ENOTDIR':
      return new ModelFileError(66, `Model path does not exist: ${path}`, cause);
    case 'ENXIO': // a socket, or a device that is not there
      return new ModelFileError(66, `The model ${path} is not a regular file.`, cause);
    case 'EACCES':
    case 'EPERM':
      return new ModelFileError(77, `The model ${path} may not be read by this user.`, cause);
    default:
      return error;
  }
}

export function errorCodeOf(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined;
}
