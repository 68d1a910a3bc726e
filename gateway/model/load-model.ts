/** From a path to a Model: opens the file, reads its metadata, builds its tokenizer and its template. */
import { type BigIntStats, closeSync, constants, fstatSync, openSync } from 'node:fs';
import { ChatTemplateError } from '../chat/chat-template.ts';
import { JinjaChatTemplate } from '../chat/jinja-chat-template.ts';
import { inSlices, type Steps } from '../ops/long-work.ts';
import { BpeTokenizer } from '../tokenizer/bpe-tokenizer.ts';
import { tokenizerOfGguf } from '../tokenizer/gguf-tables.ts';
import { TokenizerError } from '../tokenizer/tokenizer-error.ts';
import { requireKnownArchitecture } from './architectures.ts';
import { EndOfFileError } from './file-window.ts';
import { GgufError, readGguf } from './gguf.ts';
import { type Metadata, MetadataError } from './metadata.ts';
import { identityOf, type Model, modelIdOf } from './model.ts';
import { ModelFileError } from './model-file-error.ts';

/**
 * Reads what the gateway needs of the GGUF file at `path`, a few milliseconds in each turn of the loop: a vocabulary of
 * 128,000 tokens takes most of a second. Throws ModelFileError.
 */
export async function loadModel(path: string): Promise<Model> {
  try {
    return await inSlices(readModel(path));
  } catch (error) {
    throw asModelFileError(path, error);
  }
}

function* readModel(path: string): Steps<Model> {
  // O_NONBLOCK: opening a FIFO would otherwise wait for somebody to write to it.
  const fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    const stats = fstatSync(fd, { bigint: true });
    if (!stats.isFile()) throw new ModelFileError(66, `The model ${path} is not a regular file.`);
    return yield* modelFrom(path, yield* readGguf(fd, Number(stats.size)), stats);
  } finally {
    closeSync(fd);
  }
}

function* modelFrom(path: string, metadata: Metadata, stats: BigIntStats): Steps<Model> {
  const architecture = metadata.string('general.architecture');
  requireKnownArchitecture(path, architecture);
  const contextLength = metadata.uint32(`${architecture}.context_length`);
  if (contextLength === 0) throw new MetadataError(`${architecture}.context_length is 0`);
  const { tables, stopIds } = tokenizerOfGguf(metadata);
  const tokenizer = yield* BpeTokenizer.of(tables);
  const source = metadata.optionalString('tokenizer.chat_template');
  return {
    path,
    id: modelIdOf(path),
    architecture,
    contextLength,
    tokenizer,
    quantKind: quantKindOf(metadata),
    chatTemplate: source === undefined ? undefined : yield* JinjaChatTemplate.of(source, tokenizer),
    stopIds,
    created: Math.floor(Number(stats.mtimeMs) / 1000),
    file: identityOf(stats),
  };
}

/** Names of general.file_type, for people; a number that is not here is one this program cannot load anyway. */
const fileTypes: ReadonlyMap<number, string> = new Map([
  [0, 'F32'],
  [1, 'F16'],
  [2, 'Q4_0'],
  [3, 'Q4_1'],
  [7, 'Q8_0'],
]);

function quantKindOf(metadata: Metadata): string | undefined {
  const fileType = metadata.optionalUint32('general.file_type');
  return fileType === undefined ? undefined : (fileTypes.get(fileType) ?? `file type ${fileType}`);
}

function asModelFileError(path: string, error: unknown): unknown {
  if (error instanceof ModelFileError) return error;
  const cause = { cause: error };
  if (
    error instanceof GgufError ||
    error instanceof EndOfFileError ||
    error instanceof MetadataError ||
    error instanceof TokenizerError ||
    error instanceof ChatTemplateError
  ) {
    return new ModelFileError(65, `The model ${path} cannot be used: ${error.message}.`, cause);
  }
  switch (errorCode(error)) {
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

function errorCode(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined;
}
