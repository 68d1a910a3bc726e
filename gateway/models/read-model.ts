/** Reads what the gateway needs of a model, whatever form it has. It takes up to a second: see load-model.ts. */
import { statSync } from 'node:fs';
import { asModelFileError } from './as-model-file-error.ts';
import { describeGguf } from './gguf-model.ts';
import type { ModelDescription } from './model-description.ts';

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
