/** What tells a model's files from others at the same paths, without reading them. */
import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { ModelFileError } from '../errors/model-file-error.ts';
import {
  maxShards,
  optionalFiles,
  requiredFiles,
  tokenizerFolders,
  weightFiles,
} from './huggingface/folder-files.ts';
import { partsOf } from './model-parts.ts';

/**
 * Of all files that a model at this path has or would have: device, inode, size and time of modification of each, or why
 * there is none. Never rejects: what is not there, or not reachable, has an identity too, and its coming is a change.
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
    return `none: ${error instanceof Error && 'code' in error ? error.code : error}`;
  }
}

/** Also names of files that are not there. */
async function filesOf(path: string): Promise<readonly string[]> {
  const names = await readdir(path).catch(() => undefined);
  if (names === undefined) return partsOrPath(path);
  const shards = names.filter((name) => name.endsWith('.safetensors')).sort();
  const inFolder = [...requiredFiles, ...optionalFiles, ...weightFiles, ...shards.slice(0, maxShards + 1)];
  const beside = tokenizerFolders(path).flatMap((folder) =>
    [...requiredFiles, ...optionalFiles].map((name) => join(folder, name)),
  );
  return [...new Set([...inFolder.map((name) => join(path, name)), ...beside])];
}

/** The path alone where its name is that of no first part. */
function partsOrPath(path: string): readonly string[] {
  try {
    return partsOf(path);
  } catch (error) {
    if (error instanceof ModelFileError) return [path];
    throw error;
  }
}
