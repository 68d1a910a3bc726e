/** Finds the models that the settings of `runnel serve` name, and the names that clients use for them. */
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { type Config, hasSeveralModels } from '../config/config.ts';
import { refuse, UsageError } from '../errors/exit-code.ts';
import { requiredFiles } from '../models/huggingface/folder-files.ts';
import { modelIdOf } from '../models/model.ts';
import { resolveModel } from '../models/model-cache.ts';

export interface NamedModel {
  readonly path: string;
  /** With several models, each one has at least one name. A single model without a name gets that of its file. */
  readonly names: readonly string[];
}

/** A folder with more models is probably a mistake. */
export const maxModels = 1024;

/** A name in front of the first "=". A path is not taken for a name. */
const NAMED = /^([^=/\\]{1,256})=(.+)$/s;

type ListConfig = Pick<Config, 'model' | 'models-dir' | 'served-model-name'>;

/**
 * The first model is the default. Throws UsageError if two models have the same name, and ModelFileError for a name that has
 * not been pulled.
 */
export function modelsOf(config: ListConfig): NamedModel[] {
  const named = typeof config.model === 'string' ? [config.model] : config.model;
  const byPath = new Map<string, string[]>();
  for (const text of named) {
    const [, name, model = text] = existsSync(text) ? [] : (NAMED.exec(text) ?? []);
    const path = resolveModel(model);
    byPath.set(path, [...(byPath.get(path) ?? []), ...(name === undefined ? [] : [name])]);
  }
  const folder = config['models-dir'];
  // A model that is named by itself keeps the names given there.
  if (folder !== undefined) for (const path of modelsIn(folder)) byPath.set(path, byPath.get(path) ?? []);
  const models = [...byPath].map(([path, given]) => {
    const names = [...new Set([...given, ...config['served-model-name']])];
    // A single model has its file's name, which may be another one after a change.
    return { path, names: names.length > 0 || !hasSeveralModels(config) ? names : [modelIdOf(path)] };
  });
  if (models.length > maxModels)
    throw new UsageError(`There are ${models.length} models; at most ${maxModels} are served.`);
  refuse(nameFaults(models));
  return models;
}

/** Sentences about two models with the same name, between which a request could not choose. */
function nameFaults(models: readonly NamedModel[]): string[] {
  const pathOf = new Map<string, string>();
  return models.flatMap(({ path, names }) =>
    names.flatMap((name) => {
      const other = pathOf.get(name);
      pathOf.set(name, path);
      return other === undefined
        ? []
        : [
            `The models ${other} and ${path} are both called ${JSON.stringify(name)}: write --model NAME=${path}.`,
          ];
    }),
  );
}

/** Matches the second and later parts of a split model. */
const LATER_PART = /-(?!00001)\d{5}-of-\d{5}\.gguf$/;

/** The GGUF files and Hugging Face folders in a folder, sorted by name. Throws UsageError if there are none. */
function modelsIn(folder: string): string[] {
  let names: string[];
  try {
    names = readdirSync(folder).sort();
  } catch (error) {
    throw new UsageError(`--models-dir ${folder} cannot be read: ${(error as Error).message}.`);
  }
  const isModel = (name: string): boolean =>
    (name.endsWith('.gguf') && !LATER_PART.test(name)) || existsSync(join(folder, name, requiredFiles[0]));
  const models = names.filter(isModel).map((name) => join(folder, name));
  if (models.length > 0) return models;
  throw new UsageError(`--models-dir ${folder} has no GGUF file and no Hugging Face folder in it.`);
}
