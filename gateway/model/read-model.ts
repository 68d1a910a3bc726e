/** Reads what the gateway needs of a model, whatever form it has. It takes up to a second: see load-model.ts. */
import { statSync } from 'node:fs';
import { TokenizerError } from '../tokenizer/tokenizer-error.ts';
import { EndOfFileError } from './file-window.ts';
import { GgufError } from './gguf.ts';
import { describeGguf } from './gguf-model.ts';
import { FolderError } from './huggingface/folder-error.ts';
import { MetadataError } from './metadata.ts';
import type { ModelDescription } from './model-description.ts';
import { ModelFileError } from './model-file-error.ts';

/** Throws ModelFileError. */
export async function readModel(path: string): Promise<ModelDescription> {
  try {
    if (!statSync(path).isDirectory()) return describeGguf(path);
    // What checks its JSON takes longer to load than a small GGUF file to read.
    const { describeFolder } = await import('./huggingface/folder.ts');
    return describeFolder(path);
  } catch (error) {
    throw asModelFileError(path, error);
  }
}

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
  switch (errorCode(error)) {
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

function errorCode(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined;
}
