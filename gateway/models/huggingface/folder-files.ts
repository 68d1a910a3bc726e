import { existsSync, statSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import * as z from 'zod';
import { FolderError } from './folder-error.ts';
import { readAs } from './json-file.ts';

/** The files that a model in a folder is made of. */

export const requiredFiles = ['config.json', 'tokenizer.json'] as const;
/** How vectors are made of texts, as sentence-transformers lays it out. */
export const moduleList = 'modules.json';
export const poolingConfig = '1_Pooling/config.json';
export const optionalFiles = [
  'generation_config.json',
  'tokenizer_config.json',
  'chat_template.jinja',
  moduleList,
  poolingConfig,
] as const;

export const soleWeightFile = 'model.safetensors';
/** The list of several. */
export const weightIndex = 'model.safetensors.index.json';
/** The file that stands for all weights. */
export const weightFiles = [soleWeightFile, weightIndex] as const;

export const pickles = ['pytorch_model.bin', 'pytorch_model.bin.index.json'] as const;

export const whyNoPickle = 'which can run programs when it is read';

export const maxShards = 1024;

const shardPattern = /^[A-Za-z0-9_][A-Za-z0-9._-]{0,95}(?<=\.safetensors)$/;
/** Its values are looked at below, each once: a check of each entry would take most of the time that a long list takes. */
const index = z.object({
  weight_map: z.custom<Readonly<Record<string, unknown>>>(
    (value) => typeof value === 'object' && value !== null,
    'expected an object',
  ),
});

/** Names of the files with the weights that the index lists, each once; undefined where there is no index. Throws FolderError. */
export function readShards(indexPath: string): readonly string[] | undefined {
  const read = readAs(index, indexPath);
  if (read === undefined) return undefined;
  const shards = [...new Set(Object.values(read.weight_map))];
  if (shards.length === 0 || shards.length > maxShards) {
    throw new FolderError(
      `${weightIndex} in it lists ${shards.length} files of weights; 1 to ${maxShards} are read`,
    );
  }
  return shards.map(requireShardName).sort();
}

function requireShardName(name: unknown): string {
  if (typeof name === 'string' && shardPattern.test(name)) return name;
  const shown = typeof name === 'string' ? JSON.stringify(name.slice(0, 100)) : `a ${typeof name}`;
  throw new FolderError(
    `${weightIndex} in it lists ${shown}, which is no name of a safetensors file beside it`,
  );
}

/** The file whose identity is the model's: the path itself, or in a folder the one that stands for its weights. */
export function identifyingFile(path: string): string {
  const inFolder = weightFiles.map((name) => join(path, name)).find((file) => existsSync(file));
  return inFolder ?? path;
}

/** Where a model's tokenizer is looked for: beside it, where the gateway was started, or beside the model's folder. */
export function tokenizerFolders(folder: string): readonly string[] {
  return [folder, resolve('.'), dirname(resolve(folder))];
}

/** Names of all files of the model in a folder; undefined unless it is whole. */
export function filesOf(folder: string): readonly string[] | undefined {
  const isThere = (name: string) => isFile(join(folder, name));
  const weights = isThere(soleWeightFile) ? [soleWeightFile] : listed(folder);
  if (weights === undefined || ![...requiredFiles, ...weights].every(isThere)) return undefined;
  return [...requiredFiles, ...optionalFiles.filter(isThere), ...weights];
}

/** None where they cannot be read, whatever the reason. */
function listed(folder: string): readonly string[] | undefined {
  try {
    const shards = readShards(join(folder, weightIndex));
    return shards && [weightIndex, ...shards];
  } catch {
    return undefined;
  }
}

/** Not one whose link leads nowhere, or around. */
function isFile(path: string): boolean {
  try {
    return statSync(path).isFile();
  } catch {
    return false;
  }
}
