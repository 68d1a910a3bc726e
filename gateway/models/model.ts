import type { BigIntStats } from 'node:fs';
import { basename } from 'node:path';
import { ModelFileError } from '../errors/thrown.ts';
import type { ChatTemplate } from '../prompt/chat-template.ts';
import type { Pooling } from '../runner/runner.ts';
import type { TokenizerTables } from '../tokenizer/tables.ts';
import type { Tokenizer } from '../tokenizer/tokenizer.ts';
import { repoOfSnapshot } from './hub/hub-file.ts';

/** What is read of a model, GGUF file or Hugging Face folder, as plain values that the model's reader can send. */
export interface ModelDescription {
  /** The architecture by its name in GGUF files. The runner checks it. */
  readonly architecture: string;
  /** Positions the model was trained for. */
  readonly contextLength: number;
  readonly tables: TokenizerTables;
  /** Name of the pre-tokenizer, which cuts text into words, as the file has it; absent if the tokenizer needs none. */
  readonly tokenizerPre: string | undefined;
  /** How most tensors are stored, by general.file_type, such as "Q4_0"; absent if the file does not say. */
  readonly quantKind: string | undefined;
  /** How a vector is made from a text; absent if neither file nor folder says. */
  readonly pooling: ModelPooling | undefined;
  readonly template: string | undefined;
  /** Tokens that end an answer: EOS, and the end of a turn where it is another token. */
  readonly stopIds: readonly number[];
  /** Modification time of the file with the weights, in seconds since 1970. */
  readonly created: number;
  readonly file: string;
  /** Device that holds the file, as stat numbers it. The number may change at a reboot. */
  readonly device: bigint;
}

/** What the gateway knows of a model: the metadata of its file, or of its folder. Only runners read tensors. */
export interface Model extends Omit<ModelDescription, 'tables' | 'template'> {
  readonly path: string;
  /** The model's name for clients, by modelIdOf(). */
  readonly id: string;
  readonly tokenizer: Tokenizer;
  /** Absent if the file has none; chat requests are then refused by name. */
  readonly chatTemplate: ChatTemplate | undefined;
  /** The hash of the contents of its files, for receipts. Rejects if they cannot be read, or have changed since they were loaded. */
  readonly weightsHash: () => Promise<string>;
}

/**
 * A model's name for clients: the file's name without directory, part and .gguf. For a folder it is the folder's name, or the
 * repository's if the folder is in the hub's cache.
 */
export function modelIdOf(path: string): string {
  return repoOfSnapshot(path) ?? basename(withoutPart(path), '.gguf');
}

/** Identity of a file, which changes when the file is replaced or rewritten. A runner's Ready.model_identity ends with it. */
export function identityOf({ size, mtimeNs, ino }: Pick<BigIntStats, 'size' | 'mtimeNs' | 'ino'>): string {
  return `${size}-${mtimeNs}-${ino}`;
}

/** The model's file or folder asks for a pooling that Runnel does not support. */
export interface UnsupportedPooling {
  /** What asks for it and how, to be put after "The model's" in a sentence. */
  readonly unsupported: string;
}

export type ModelPooling = Pooling | UnsupportedPooling;

/** Values of `pooling_type` in GGUF files. */
const POOLING_TYPES: ReadonlyMap<number, Pooling> = new Map([
  [1, 'mean'],
  [2, 'cls'],
  [3, 'last'],
]);
/** The file says that nothing is pooled: the model is not made for vectors. */
const NO_POOLING = 0;

export function poolingOfType(type = NO_POOLING): ModelPooling | undefined {
  if (type === NO_POOLING) return undefined;
  return POOLING_TYPES.get(type) ?? { unsupported: `file says pooling_type ${type}` };
}

/** Values of general.architecture that runners support; runner/models/registry.cc has the runners' table. */
const ARCHITECTURES: readonly string[] = [
  'llama',
  'qwen2',
  'qwen3',
  'gpt2',
  'bert',
  'nomic-bert',
  'gemma2',
  'gemma3',
  'phi3',
  'glm4',
  'granite',
  'smollm3',
  'olmo2',
  'qwen3moe',
  'gpt-oss',
];
/** What others need that no runner computes, in the runners' words; names of GGUF files and of config.json. */
export const MISSING_OPERATIONS: ReadonlyMap<string, string> = new Map(
  Object.entries({
    'ALiBi, biases of scores by distance': ['bloom', 'jina-bert-v2', 'mpt'],
    'NTK scaling of rotations in an encoder': ['new'],
    'compressed keys and values (MLA)': ['deepseek2', 'deepseek_v2', 'deepseek_v3', 'minicpm3'],
    'experts that every token uses': ['deepseek', 'glm4moe', 'glm4_moe', 'qwen2moe', 'qwen2_moe'],
    'state space layers': [
      'falcon-h1',
      'falcon_h1',
      'granitehybrid',
      'granitemoehybrid',
      'jamba',
      'mamba',
      'mamba2',
      'nemotron_h',
    ],
    'recurrent layers': ['qwen3next', 'qwen3_next', 'rwkv6', 'rwkv7'],
    'attention and a feed-forward part side by side': [
      'cohere',
      'cohere2',
      'command-r',
      'falcon',
      'gptneox',
      'gpt_neox',
      'phi',
      'phi2',
    ],
    'positions of several axes (M-RoPE)': ['qwen2vl', 'qwen2_vl', 'qwen2_5_vl', 'qwen3vl', 'qwen3_vl'],
    'attention in chunks': ['llama4'],
    'several residual streams': ['gemma3n'],
    'attention to another text or an image': ['mllama', 't5'],
    'biases of scores by learned distances': ['mpnet', 't5encoder'],
    'scores by relative positions': ['deberta-v2'],
    'windows of rows that see ahead': ['modern-bert', 'modernbert'],
    'experts in an encoder': ['nomic-bert-moe'],
  }).flatMap(([missing, names]) => names.map((name) => [name, missing] as const)),
);
/** Characters of a name from a file that an error message shows. */
const shownChars = 80;

/**
 * Throws ModelFileError, worded as the runners' error, for an architecture that no runner supports. So no runner has to be
 * started to say it.
 */
export function requireKnownArchitecture(path: string, architecture: string): void {
  if (ARCHITECTURES.includes(architecture)) return;
  const known = ARCHITECTURES.join(', ');
  const missing = MISSING_OPERATIONS.get(architecture);
  const reason = missing === undefined ? '' : `: it needs ${missing}`;
  throw new ModelFileError(
    65,
    `${path} is of architecture ${quoted(architecture)}, which is not supported${reason}; supported: ${known}.`,
  );
}

/** Quotes as runners do: bytes that are not printable ASCII are escaped. */
function quoted(name: string): string {
  const bytes = Buffer.from(name);
  const shown = Array.from(bytes.subarray(0, shownChars), (byte) => {
    const char = String.fromCharCode(byte);
    return /[ -~]/.test(char) && !/["\\]/.test(char) ? char : `\\x${byte.toString(16).padStart(2, '0')}`;
  });
  return `"${shown.join('')}${bytes.length > shownChars ? '...' : ''}"`;
}

/** The files of a model that is split into parts: "model-00001-of-00003.gguf" and the others beside it. */
const partName = /-(\d{5})-of-(\d{5})\.gguf$/;
const maxModelParts = 1024;

/**
 * Paths of all files of the model whose only or first file is `path`. Throws ModelFileError if the name is that of a later
 * part, or of a model of more than maxModelParts parts.
 */
export function partsOf(path: string): readonly string[] {
  const match = partName.exec(path);
  if (match === null) return [path];
  const [number, count] = [Number(match[1]), Number(match[2])];
  const pathOf = (part: number) =>
    path.replace(partName, `-${String(part).padStart(5, '0')}-of-${match[2]}.gguf`);
  if (number !== 1)
    throw new ModelFileError(
      65,
      `The model ${path} is part ${number} of ${count}, as its name says; give the path of the first part, ${pathOf(1)}.`,
    );
  if (count < 1 || count > maxModelParts)
    throw new ModelFileError(
      65,
      `The model ${path} has ${count} parts, as its name says; 1 to ${maxModelParts} are supported.`,
    );
  return Array.from({ length: count }, (_, index) => pathOf(index + 1));
}

export function withoutPart(path: string): string {
  return path.replace(partName, '.gguf');
}
