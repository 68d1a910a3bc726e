/** Where pulled models are, and what a model's name on a command line means. */
import { existsSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { type CatalogueEntry, catalogue } from './catalogue.ts';
import { ModelFileError } from './model-file-error.ts';

/** RUNNEL_CACHE, or ~/.cache/runnel, and in it the folder of models. */
export function modelFolder(): string {
  return join(process.env.RUNNEL_CACHE || join(homedir(), '.cache', 'runnel'), 'models');
}

export function cachePath(entry: Pick<CatalogueEntry, 'name'>): string {
  return join(modelFolder(), `${entry.name}.gguf`);
}

/**
 * The path of a model given by its name in the catalogue, or by its path. ModelFileError (66) for a name that has not
 * been pulled and is no path either.
 */
export function resolveModel(nameOrPath: string): string {
  const entry = catalogue.find(({ name }) => name === nameOrPath);
  if (entry === undefined) return nameOrPath;
  const cached = cachePath(entry);
  if (existsSync(cached)) return cached;
  if (existsSync(nameOrPath)) return nameOrPath;
  throw new ModelFileError(
    66,
    `The model ${entry.name} has not been fetched yet; run \`npx runnel pull ${entry.name}\` first.`,
  );
}
