/**
 * Reads what the gateway needs of a model, GGUF file or folder. It takes up to a second, so the model's reader does it.
 */
import { statSync } from 'node:fs';
import { asModelFileError } from './as-model-file-error.ts';
import { describeGguf } from './gguf-model.ts';
import type { ModelDescription } from './model.ts';

/** Throws ModelFileError. */
export async function readModel(path: string): Promise<ModelDescription> {
  try {
    if (!statSync(path).isDirectory()) return describeGguf(path);
    // Loading the code that checks JSON takes longer than reading a small GGUF file.
    const { describeFolder } = await import('./huggingface/folder.ts');
    return describeFolder(path);
  } catch (error) {
    throw asModelFileError(path, error);
  }
}
