/**
 * Reads the JSON files of a model's folder. They are hostile until proven otherwise: their size is checked before they are
 * read, a link out of the folder is not followed, and no error repeats what is in a file.
 */
import { isUtf8 } from 'node:buffer';
import { closeSync, constants, fstatSync, openSync, readFileSync, realpathSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import type { z } from 'zod';
import { hubFolder, isInside, repoOfSnapshot } from '../hub/hub-file.ts';

/** A folder, or a file in it, cannot be used. The message says what is wrong, without a full stop at the end. */
export class FolderError extends Error {
  override readonly name = 'FolderError';
}

export const fileLimits = {
  'config.json': 2 ** 20,
  'generation_config.json': 2 ** 20,
  'tokenizer_config.json': 2 ** 24,
  'chat_template.jinja': 2 ** 22,
  'tokenizer.json': 2 ** 27,
  'model.safetensors.index.json': 2 ** 23,
  'modules.json': 2 ** 20,
  '1_Pooling/config.json': 2 ** 20,
} as const;

export type FileName = keyof typeof fileLimits;

/** The bytes of a UTF-8 file; undefined if there is none. Throws FolderError, and the errors of opening. */
export function readUtf8(path: string): Buffer | undefined {
  const name = nameOf(path);
  const limit = fileLimits[name as FileName];
  const fd = openOrNone(path);
  if (fd === undefined) return undefined;
  try {
    const stats = fstatSync(fd);
    if (!stats.isFile()) throw new FolderError(`${name} in it is not a regular file`);
    if (stats.size > limit)
      throw new FolderError(`${name} in it has ${stats.size} bytes; at most ${limit} are allowed`);
    const bytes = readFileSync(fd);
    if (!isUtf8(bytes)) throw new FolderError(`${name} in it is not UTF-8`);
    return bytes;
  } finally {
    closeSync(fd);
  }
}

/** The text of a UTF-8 file. Same errors as readUtf8(). */
export function readText(path: string): string | undefined {
  return readUtf8(path)?.toString('utf8');
}

/** Returns the result of `parse`, and turns its SyntaxError into a FolderError that names the file. */
export function orFolderError<Result>(path: string, parse: () => Result): Result {
  try {
    return parse();
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    // The rest of the message has text of the file.
    const position = /at position \d+/.exec(error.message)?.[0] ?? '';
    throw new FolderError(`${nameOf(path)} in it is not JSON ${position}`.trimEnd());
  }
}

/** The file's content, checked by the schema; undefined if there is no file. Throws FolderError. */
export function readAs<Schema extends z.ZodType>(schema: Schema, path: string): z.output<Schema> | undefined {
  const text = readText(path);
  if (text === undefined) return undefined;
  const result = schema.safeParse(orFolderError(path, () => JSON.parse(text.replace(/^\uFEFF/, ''))));
  if (result.success) return result.data;
  const issue = result.error.issues[0];
  const place = issue?.path.join('.');
  throw new FolderError(
    `${nameOf(path)} in it has an unexpected value${place && ` at ${place}`}: ${issue?.message}`,
  );
}

function nameOf(path: string): string {
  const name = basename(path);
  const inFolder = join(basename(dirname(path)), name);
  return inFolder in fileLimits ? inFolder : name;
}

function openOrNone(path: string): number | undefined {
  try {
    const target = realpathSync(path);
    if (!isOwn(path, target))
      throw new FolderError(
        `${nameOf(path)} in it is a link to a file outside of it; put the file itself into the folder`,
      );
    // Without O_NONBLOCK, opening a FIFO would wait for a writer.
    return openSync(target, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

/**
 * Whether a file of a folder is in the folder, or in the hub's cache, where the files of a folder are links to blobs. target:
 * the file's path without links.
 */
function isOwn(path: string, target: string): boolean {
  const folder = realpathSync(path.slice(0, path.length - nameOf(path).length) || '.');
  const repo = repoOfSnapshot(folder) === undefined ? folder : resolve(folder, '../..');
  return isInside(repo, target) || isInside(realOrItself(hubFolder()), target);
}

function realOrItself(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    return path;
  }
}
