/** Identifies the files of a model without reading them, so that a change of any of them shows. */
import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { ModelFileError } from '../errors/model-file-error.ts';
import { isShortage } from '../errors/unavailable-error.ts';
import {
  maxShards,
  optionalFiles,
  requiredFiles,
  tokenizerFolders,
  weightFiles,
} from './huggingface/folder-files.ts';
import { partsOf } from './model-parts.ts';

/**
 * The identity of the model at this path: device, inode, size and modification time of each file that it has or could have,
 * or the error code if there is none. A missing file is part of the identity too, so its appearance is a change. Rejects only
 * if the machine lacks what it takes to look, which says nothing about the files.
 */
export async function modelIdentity(path: string): Promise<string> {
  const files = await filesOf(path);
  return (await Promise.all(files.map(fileIdentity))).join('\n');
}

async function fileIdentity(path: string): Promise<string> {
  try {
    const { dev, ino, size, mtimeNs } = await stat(path, { bigint: true });
    return `${dev} ${ino} ${size} ${mtimeNs}`;
  } catch (error) {
    if (isShortage(error)) throw error;
    return `none: ${error instanceof Error && 'code' in error ? error.code : error}`;
  }
}

/** Includes names of files that do not exist. */
async function filesOf(path: string): Promise<readonly string[]> {
  const names = await namesIn(path);
  if (names === undefined) return partsOrPath(path);
  const shards = names.filter((name) => name.endsWith('.safetensors')).sort();
  const inFolder = [...requiredFiles, ...optionalFiles, ...weightFiles, ...shards.slice(0, maxShards + 1)];
  const beside = tokenizerFolders(path).flatMap((folder) =>
    [...requiredFiles, ...optionalFiles].map((name) => join(folder, name)),
  );
  return [...new Set([...inFolder.map((name) => join(path, name)), ...beside])];
}

/** undefined if the path is no folder that can be read. */
async function namesIn(path: string): Promise<readonly string[] | undefined> {
  try {
    return await readdir(path);
  } catch (error) {
    if (isShortage(error)) throw error;
    return undefined;
  }
}

/** The path alone if partsOf() refuses its name. */
function partsOrPath(path: string): readonly string[] {
  try {
    return partsOf(path);
  } catch (error) {
    if (error instanceof ModelFileError) return [path];
    throw error;
  }
}
