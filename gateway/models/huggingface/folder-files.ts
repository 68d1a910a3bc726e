import { existsSync, statSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import * as z from 'zod';
import { FolderError, readAs } from './json-file.ts';

/** The files that make up a model in a folder. */

export const requiredFiles = ['config.json', 'tokenizer.json'] as const;
/** Files that say how a vector is made from a text, laid out by sentence-transformers. */
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
/** The index that lists the files, if the weights are in several. */
export const weightIndex = 'model.safetensors.index.json';
/** The files of which one represents all weights. */
export const weightFiles = [soleWeightFile, weightIndex] as const;

export const pickles = ['pytorch_model.bin', 'pytorch_model.bin.index.json'] as const;

export const whyNoPickle = 'which can run programs when it is read';

export const maxShards = 1024;

const shardPattern = /^[A-Za-z0-9_][A-Za-z0-9._-]{0,95}(?<=\.safetensors)$/;
/**
 * The values are checked below, each distinct one once: checking every entry with zod would take most of the time for a long
 * list.
 */
const index = z.object({
  weight_map: z.custom<Readonly<Record<string, unknown>>>(
    (value) => typeof value === 'object' && value !== null,
    'expected an object',
  ),
});

/** Names of the weight files that the index lists, without repeats; undefined if there is no index. Throws FolderError. */
export function readShards(indexPath: string): readonly string[] | undefined {
  const read = readAs(index, indexPath);
  if (read === undefined) return undefined;
  const shards = [...new Set(Object.values(read.weight_map))];
  if (shards.length === 0 || shards.length > maxShards)
    throw new FolderError(
      `${weightIndex} in it lists ${shards.length} files of weights; 1 to ${maxShards} are read`,
    );
  return shards.map(requireShardName).sort();
}

function requireShardName(name: unknown): string {
  if (typeof name === 'string' && shardPattern.test(name)) return name;
  const shown = typeof name === 'string' ? JSON.stringify(name.slice(0, 100)) : `a ${typeof name}`;
  throw new FolderError(
    `${weightIndex} in it lists ${shown}, which is not the name of a safetensors file beside it`,
  );
}

/** The file whose identity counts as the model's: the path itself, or the file in a folder that represents the weights. */
export function identifyingFile(path: string): string {
  const inFolder = weightFiles.map((name) => join(path, name)).find((file) => existsSync(file));
  return inFolder ?? path;
}

/**
 * Folders in which a model's tokenizer is searched: the model's, the gateway's working directory, and the parent of the
 * model's.
 */
export function tokenizerFolders(folder: string): readonly string[] {
  return [folder, resolve('.'), dirname(resolve(folder))];
}

/** Names of all files of the model in a folder; undefined if the model is incomplete. */
export function filesOf(folder: string): readonly string[] | undefined {
  const isThere = (name: string) => isFile(join(folder, name));
  const weights = isThere(soleWeightFile) ? [soleWeightFile] : listed(folder);
  if (weights === undefined || ![...requiredFiles, ...weights].every(isThere)) return undefined;
  return [...requiredFiles, ...optionalFiles.filter(isThere), ...weights];
}

function listed(folder: string): readonly string[] | undefined {
  try {
    const shards = readShards(join(folder, weightIndex));
    return shards && [weightIndex, ...shards];
  } catch {
    return undefined;
  }
}

/** Whether the path is a regular file. A link that is dangling or circular is none. */
function isFile(path: string): boolean {
  try {
    return statSync(path).isFile();
  } catch {
    return false;
  }
}
