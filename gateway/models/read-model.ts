/**
 * Reads what the gateway needs of a model, GGUF file or folder. It takes up to a second, so the model's reader does it.
 */
import { type BigIntStats, closeSync, constants, fstatSync, openSync, statSync } from 'node:fs';
import { errorCodeOf, ModelFileError } from '../errors/thrown.ts';
import { isEncoder } from '../runner/runner.ts';
import { stringAt } from '../tokenizer/packed-texts.ts';
import { TokenizerError } from '../tokenizer/tables.ts';
import { EndOfFileError } from './file-window.ts';
import { GgufError, readGguf } from './gguf.ts';
import { tokenizerOfGguf } from './gguf-tables.ts';
import { FolderError } from './huggingface/json-file.ts';
import { type Metadata, MetadataError } from './metadata.ts';
import {
  identityOf,
  type ModelDescription,
  partsOf,
  poolingOfType,
  requireKnownArchitecture,
} from './model.ts';

/** Throws ModelFileError. */
export async function readModel(path: string): Promise<ModelDescription> {
  try {
    if (!statSync(path).isDirectory()) return describeGguf(path);
    // Loading the code that checks JSON takes longer than reading a small GGUF file.
    const { describeFolder } = await import('./huggingface/folder.ts');
    return describeFolder(path);
  } catch (error) {
    throw asModelFileError(path, error);
  }
}

/** Reads all parts if the model is split over several files. Throws ModelFileError, and the errors of reading the first part. */
function describeGguf(path: string): ModelDescription {
  const parts = partsOf(path);
  const { metadata, stats } = readPart(path, 0, parts.length);
  for (let index = 1; index < parts.length; index++) readLaterPart(parts, index);
  const architecture = metadata.string('general.architecture');
  requireKnownArchitecture(path, architecture);
  const contextLength = metadata.uint32(`${architecture}.context_length`);
  if (contextLength === 0) throw new MetadataError(`${architecture}.context_length is 0`);
  requireKnownLabels(metadata, architecture);
  return {
    architecture,
    contextLength,
    ...tokenizerOfGguf(metadata),
    tokenizerPre: metadata.optionalString('tokenizer.ggml.pre'),
    quantKind: quantKindOf(metadata),
    pooling: poolingOfType(metadata.optionalCount(`${architecture}.pooling_type`)),
    template: metadata.optionalString('tokenizer.chat_template'),
    created: Math.floor(Number(stats.mtimeMs) / 1000),
    file: identityOf(stats),
    device: stats.dev,
  };
}

/**
 * The labels of a reranker that writes one of them, whose head repeats rows of its output matrix: documents are ranked by what it
 * would write (calls/relevance.ts).
 */
const WRITTEN_LABELS: ReadonlySet<string> = new Set(['yes', 'no']);

/** Throws MetadataError for a model that writes and has a head of other labels, which nothing computes. */
function requireKnownLabels(metadata: Metadata, architecture: string): void {
  const key = `${architecture}.classifier.output_labels`;
  if (isEncoder(architecture) || !metadata.has(key)) return;
  const texts = metadata.texts(key);
  const isKnown =
    texts.starts.length === WRITTEN_LABELS.size + 1 &&
    [0, 1].every((index) => WRITTEN_LABELS.has(stringAt(texts, index)));
  if (isKnown) return;
  throw new MetadataError(
    `${key} has other labels than "yes" and "no", those of Qwen3-Reranker; other heads of models that write are not supported`,
  );
}

interface Part {
  readonly metadata: Metadata;
  readonly stats: BigIntStats;
}

function readPart(path: string, index: number, count: number): Part {
  // Without O_NONBLOCK, opening a FIFO would wait for a writer.
  const fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    const stats = fstatSync(fd, { bigint: true });
    if (!stats.isFile()) throw new ModelFileError(66, `The model ${path} is not a regular file.`);
    const metadata = readGguf(fd, Number(stats.size));
    requirePart(metadata, index, count);
    return { metadata, stats };
  } finally {
    closeSync(fd);
  }
}

/** Checks a later part. Errors name this part's path. */
function readLaterPart(parts: readonly string[], index: number): void {
  const path = parts[index] as string;
  try {
    readPart(path, index, parts.length);
  } catch (error) {
    if (errorCodeOf(error) === 'ENOENT') {
      const message = `The model ${parts[0]} is part 1 of ${parts.length}; part ${index + 1}, ${path}, does not exist.`;
      throw new ModelFileError(66, message, { cause: error });
    }
    throw asModelFileError(path, error);
  }
}

/** Names of general.file_type, for people. Runnel cannot load files of other numbers anyway. */
const fileTypes: ReadonlyMap<number, string> = new Map([
  [0, 'F32'],
  [1, 'F16'],
  [2, 'Q4_0'],
  [3, 'Q4_1'],
  [7, 'Q8_0'],
  [8, 'Q5_0'],
  [9, 'Q5_1'],
  [10, 'Q2_K'],
  [11, 'Q3_K_S'],
  [12, 'Q3_K_M'],
  [13, 'Q3_K_L'],
  [14, 'Q4_K_S'],
  [15, 'Q4_K_M'],
  [16, 'Q5_K_S'],
  [17, 'Q5_K_M'],
  [18, 'Q6_K'],
  [25, 'IQ4_NL'],
  [30, 'IQ4_XS'],
  [32, 'BF16'],
  [38, 'MXFP4'],
]);

function quantKindOf(metadata: Metadata): string | undefined {
  const fileType = metadata.optionalUint32('general.file_type');
  return fileType === undefined ? undefined : (fileTypes.get(fileType) ?? `file type ${fileType}`);
}

/** Turns an error of reading a model file into a ModelFileError that names the file. Returns other errors unchanged. */
export function asModelFileError(path: string, error: unknown): unknown {
  if (error instanceof ModelFileError) return error;
  const cause = { cause: error };
  if (
    error instanceof GgufError ||
    error instanceof EndOfFileError ||
    error instanceof MetadataError ||
    error instanceof TokenizerError ||
    error instanceof FolderError
  ) {
    return new ModelFileError(65, `The model ${path} cannot be used: ${error.message}.`, cause);
  }
  switch (errorCodeOf(error)) {
    case 'ENOENT':
    case 'ENOTDIR':
      return new ModelFileError(66, `Model path does not exist: ${path}`, cause);
    case 'ENXIO': // a socket, or a device that is not there
      return new ModelFileError(66, `The model ${path} is not a regular file.`, cause);
    case 'EACCES':
    case 'EPERM':
      return new ModelFileError(77, `The model ${path} may not be read by this user.`, cause);
    default:
      return error;
  }
}

/** Throws MetadataError unless the file says that it is part `index` (from 0) of `count`. */
function requirePart(metadata: Metadata, index: number, count: number): void {
  const said = metadata.optionalCount('split.count') ?? 1;
  const saidIndex = metadata.optionalCount('split.no') ?? 0;
  // A writer that does not split files may write a split.count of 0.
  if (count === 1 && said <= 1 && saidIndex === 0) return;
  if (said !== count)
    throw new MetadataError(
      `split.count is ${said}, but its name says that it is part ${index + 1} of ${count}; the name of the first of 3 parts ends in -00001-of-00003.gguf`,
    );
  if (saidIndex !== index)
    throw new MetadataError(`split.no is ${saidIndex}; part ${index + 1} of ${count} has ${index}`);
}
