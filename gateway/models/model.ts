import type { BigIntStats } from 'node:fs';
import { basename } from 'node:path';
import type { ChatTemplate } from '../prompt/chat-template.ts';
import type { Tokenizer } from '../tokenizer/tokenizer.ts';
import { repoOfSnapshot } from './hub/repo-of-snapshot.ts';
import { withoutPart } from './model-parts.ts';
import type { ModelPooling } from './model-pooling.ts';

/** What the gateway knows of a model, read from its file's metadata, or from its folder. Tensors are the runner's. */
export interface Model {
  readonly path: string;
  /** As clients name it: see modelIdOf. */
  readonly id: string;
  /** The architecture, as GGUF files name it; the runner verifies it. */
  readonly architecture: string;
  /** Positions the model was trained for. */
  readonly contextLength: number;
  readonly tokenizer: Tokenizer;
  /** How text is cut before it is tokenized, by the file's name for it; absent where a tokenizer needs none. */
  readonly tokenizerPre: string | undefined;
  /** How most tensors are stored, as general.file_type says: "Q4_0"; absent when the file does not say. */
  readonly quantKind: string | undefined;
  /** How vectors are made of its texts; absent when neither file nor folder says. */
  readonly pooling: ModelPooling | undefined;
  /** Absent when the file has none: chat is then refused by name. */
  readonly chatTemplate: ChatTemplate | undefined;
  /** Tokens that end an answer: EOS, and the end of a turn where it is another. */
  readonly stopIds: readonly number[];
  /** Seconds since 1970 of the file's modification time. */
  readonly created: number;
  /** Of the file that this was read from: see identityOf. */
  readonly file: string;
  /** The device that it lies on, as stat numbers it: another one after a reboot perhaps. */
  readonly device: bigint;
}

/**
 * As clients name the model of a file: by the file's name without directory, part and .gguf. That of a folder has the
 * folder's name, or its repository's where the folder is one of the hub's cache.
 */
export function modelIdOf(path: string): string {
  return repoOfSnapshot(path) ?? basename(withoutPart(path), '.gguf');
}

/** A file that was replaced or written anew has another; as a runner's Ready.model_identity ends. */
export function identityOf({ size, mtimeNs, ino }: Pick<BigIntStats, 'size' | 'mtimeNs' | 'ino'>): string {
  return `${size}-${mtimeNs}-${ino}`;
}
