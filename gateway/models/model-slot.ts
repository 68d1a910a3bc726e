import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { isShortage, ModelFileError } from '../errors/thrown.ts';
import { BpeTokenizer } from '../tokenizer/bpe-tokenizer.ts';
import {
  maxShards,
  optionalFiles,
  requiredFiles,
  tokenizerFolders,
  weightFiles,
} from './huggingface/folder-files.ts';
import { type Model, modelIdOf, partsOf } from './model.ts';
import type { ReaderLimits } from './reader/messages.ts';
import { ModelReader } from './reader/model-reader.ts';
import { hashOnce } from './weights-hash.ts';

/** How model files are read; tests replace it. */
export interface ModelFiles {
  /** Identity of the files at this path now. Rejects only in a shortage of the machine. */
  identity(path: string): Promise<string>;
  /** Throws ModelFileError if the files cannot be used. */
  load(path: string): Promise<Model>;
}

const filesOnDisk: ModelFiles = { identity: modelIdentity, load: loadModel };

/**
 * The model that a gateway serves from one path. It is read again when one of its files has changed, so that a file mended or
 * replaced under a running gateway is served as it is now. loaded-model.ts checks whether a runner has read the same file.
 */
export class ModelSlot {
  readonly path: string;
  readonly #files: ModelFiles;
  #model: Model | undefined;
  /** Identity of the files just before they were read. */
  #identity = '';
  /** The refresh under way, shared by runners that start at the same time. */
  #refreshed: Promise<void> | undefined;
  #numCloses = 0;

  constructor(path: string, files: ModelFiles = filesOnDisk) {
    this.path = path;
    this.#files = files;
  }

  /** A slot for another path, or for a path that has another file now. */
  other(path: string): ModelSlot {
    return new ModelSlot(path, this.#files);
  }

  /** The model as last read; undefined before the first read, and while the file cannot be used. */
  get current(): Model | undefined {
    return this.#model;
  }

  /** Identity of the files on disk now, whatever has been read. Rejects only in a shortage of the machine. */
  identity(): Promise<string> {
    return this.#files.identity(this.path);
  }

  /**
   * Called before each start of a runner. Throws ModelFileError if the file cannot be used, and another error in a shortage of
   * the machine.
   */
  refresh(): Promise<void> {
    this.#refreshed ??= this.#refresh().finally(() => (this.#refreshed = undefined));
    return this.#refreshed;
  }

  async #refresh(): Promise<void> {
    const numCloses = this.#numCloses;
    if (await this.holds(this.path)) return;
    this.#letGo();
    this.#identity = await this.#files.identity(this.path);
    const model = await this.#files.load(this.path);
    // close() during the load closes the model that was being read too.
    if (this.#numCloses === numCloses) this.#model = model;
    else model.tokenizer.close();
  }

  /** Whether the slot has what would be read from that path now. */
  async holds(path: string): Promise<boolean> {
    if (path !== this.path || this.#model === undefined) return false;
    return (await this.#files.identity(path)) === this.#identity && this.#model !== undefined;
  }

  /** Closes the model. Its current users may finish what they are doing. */
  close(): void {
    this.#numCloses += 1;
    this.#letGo();
  }

  #letGo(): void {
    this.#model?.tokenizer.close();
    this.#model = undefined;
  }
}

/** Reads the model at this path by a reader of its own. Throws ModelFileError. */
export async function loadModel(path: string, limits: Partial<ReaderLimits> = {}): Promise<Model> {
  const identity = await modelIdentity(path);
  const reader = new ModelReader(limits);
  const weightsHash = () => hashOnce(identity, () => hashOf(path, identity, reader));
  try {
    const { description, marks } = await reader.read(path);
    const { tables, template, ...facts } = description;
    const tokenizer = await BpeTokenizer.of(tables, reader);
    const chatTemplate = marks === undefined ? undefined : reader;
    return { path, id: modelIdOf(path), ...facts, tokenizer, chatTemplate, weightsHash };
  } catch (error) {
    reader.close();
    throw error;
  }
}

async function hashOf(path: string, identity: string, reader: ModelReader): Promise<string> {
  const hash = await reader.hash(path);
  if ((await modelIdentity(path)) === identity) return hash;
  throw new Error(`The files of ${path} have changed since the model was loaded.`);
}

/**
 * Identifies the files of a model without reading them, so that a change of any of them shows. The identity of the model at
 * this path: device, inode, size and modification time of each file that it has or could have, or the error code if there is
 * none. A missing file is part of the identity too, so its appearance is a change. Rejects only if the machine lacks what it
 * takes to look, which says nothing about the files.
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
