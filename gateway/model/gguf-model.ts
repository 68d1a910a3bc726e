/** A model in a GGUF file. */
import { closeSync, constants, fstatSync, openSync } from 'node:fs';
import { tokenizerOfGguf } from '../tokenizer/gguf-tables.ts';
import { requireKnownArchitecture } from './architectures.ts';
import { readGguf } from './gguf.ts';
import { type Metadata, MetadataError } from './metadata.ts';
import { identityOf } from './model.ts';
import type { ModelDescription } from './model-description.ts';
import { ModelFileError } from './model-file-error.ts';

export function describeGguf(path: string): ModelDescription {
  // O_NONBLOCK: opening a FIFO would otherwise wait for somebody to write to it.
  const fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    const stats = fstatSync(fd, { bigint: true });
    if (!stats.isFile()) throw new ModelFileError(66, `The model ${path} is not a regular file.`);
    const metadata = readGguf(fd, Number(stats.size));
    const architecture = metadata.string('general.architecture');
    requireKnownArchitecture(path, architecture);
    const contextLength = metadata.uint32(`${architecture}.context_length`);
    if (contextLength === 0) throw new MetadataError(`${architecture}.context_length is 0`);
    return {
      architecture,
      contextLength,
      ...tokenizerOfGguf(metadata),
      quantKind: quantKindOf(metadata),
      template: metadata.optionalString('tokenizer.chat_template'),
      created: Math.floor(Number(stats.mtimeMs) / 1000),
      file: identityOf(stats),
    };
  } finally {
    closeSync(fd);
  }
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
