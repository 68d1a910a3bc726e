import { createHash } from 'node:crypto';
import { closeSync, openSync, readSync, statSync } from 'node:fs';
import { basename, join } from 'node:path';
import type { Steps } from '../tokenizer/tokenizer.ts';
import { filesOf, optionalFiles } from './huggingface/folder-files.ts';
import { FolderError } from './huggingface/json-file.ts';
import { partsOf } from './model.ts';

/**
 * The hash of a model's contents, for receipts. Runners read the whole file while they load, where hashing would delay the first
 * token, and only the first of several reads it. So the model's reader reads it once more, in slices beside its other work.
 */

const STEP_BYTES = 2 ** 20;

/** Hashes are kept for as many states of models' files. */
const MAX_KNOWN = 64;

/** By the identity of the files (modelIdentity() in model-slot.ts): a model that is unloaded and loaded again is not hashed again. */
const known = new Map<string, Promise<string>>();

/** Hashes the files with this identity once. A failure is not kept. */
export function hashOnce(identity: string, hash: () => Promise<string>): Promise<string> {
  const found = known.get(identity);
  if (found !== undefined) return found;
  const made = hash();
  known.set(identity, made);
  made.catch(() => known.delete(identity));
  for (const oldest of known.keys()) if (known.size > MAX_KNOWN) known.delete(oldest);
  return made;
}

/**
 * The SHA-256 of a model's only file, as sha256sum prints it; of several files, that of the lines that sha256sum prints of them. Of a
 * folder these are configuration, vocabulary and weights.
 */
export function* hashSteps(path: string): Steps<string> {
  const files = hashedFiles(path);
  const lines: string[] = [];
  for (const file of files) lines.push(`${yield* fileHash(file)}  ${basename(file)}\n`);
  const [only = ''] = lines;
  const hash =
    lines.length > 1 ? createHash('sha256').update(lines.join('')).digest('hex') : only.slice(0, 64);
  return `sha256:${hash}`;
}

function hashedFiles(path: string): readonly string[] {
  if (!statSync(path).isDirectory()) return partsOf(path);
  const names = filesOf(path);
  if (names === undefined)
    throw new FolderError('a receipt needs config.json, tokenizer.json and all weights in it');
  const isOptional = new Set<string>(optionalFiles);
  return names.filter((name) => !isOptional.has(name)).map((name) => join(path, name));
}

function* fileHash(path: string): Steps<string> {
  const hash = createHash('sha256');
  const bytes = Buffer.allocUnsafe(STEP_BYTES);
  const fd = openSync(path, 'r');
  try {
    for (;;) {
      const numBytes = readSync(fd, bytes, 0, STEP_BYTES, null);
      if (numBytes === 0) return hash.digest('hex');
      hash.update(bytes.subarray(0, numBytes));
      yield;
    }
  } finally {
    closeSync(fd);
  }
}
