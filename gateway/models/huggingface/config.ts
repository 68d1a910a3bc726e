/** Reads the small JSON files of a model's folder. */
import { join } from 'node:path';
import * as z from 'zod';
import { FolderError, readAs } from './json-file.ts';

const ids = z.union([z.int().min(0), z.array(z.int().min(0)).max(64)]).nullish();
const textConfig = z.object({
  model_type: z.string().max(80),
  vocab_size: z
    .int()
    .min(1)
    .max(2 ** 20)
    .optional(),
  max_position_embeddings: z
    .int()
    .min(1)
    .max(2 ** 31 - 1)
    .optional(),
  /** GPT-2's name for max_position_embeddings. */
  n_positions: z
    .int()
    .min(1)
    .max(2 ** 31 - 1)
    .optional(),
  eos_token_id: ids,
  bos_token_id: ids,
  torch_dtype: z.string().max(80).nullish(),
  dtype: z.string().max(80).nullish(),
});
/** A model that reads more than text describes its language model in text_config. */
const config = textConfig.extend({ text_config: textConfig.partial().optional() });
const generationConfig = z.object({ eos_token_id: ids });
const token = z
  .union([z.string(), z.object({ content: z.string() }).transform(({ content }) => content)])
  .nullish();
const template = z.union([z.string(), z.array(z.object({ name: z.string(), template: z.string() }))]);
const tokenizerConfig = z.object({
  bos_token: token,
  eos_token: token,
  add_bos_token: z.boolean().nullish(),
  add_eos_token: z.boolean().nullish(),
  chat_template: template.nullish(),
});

/** Maps config.json's model_type to the runners' architecture. Names that are the same in both are left out. */
const architectures: ReadonlyMap<string, string> = new Map([
  ['mistral', 'llama'],
  ['gemma3_text', 'gemma3'],
  ['qwen3_moe', 'qwen3moe'],
]);
const dtypes: ReadonlyMap<string, string> = new Map([
  ['float32', 'F32'],
  ['float16', 'F16'],
  ['bfloat16', 'BF16'],
]);

export interface FolderConfig {
  readonly architecture: string;
  readonly contextLength: number;
  readonly vocabSize: number;
  readonly quantKind: string | undefined;
  /** Tokens that end an answer. */
  readonly stopIds: readonly number[];
}

export function readConfig(folder: string): FolderConfig {
  const read = readAs(config, join(folder, 'config.json'));
  if (read === undefined) throw new FolderError('there is no config.json in it');
  const merged = { ...read, ...read.text_config };
  const { vocab_size, max_position_embeddings, n_positions } = merged;
  const model_type = merged.model_type ?? read.model_type;
  const contextLength = max_position_embeddings ?? n_positions;
  if (vocab_size === undefined) throw new FolderError('config.json in it does not say vocab_size');
  if (contextLength === undefined)
    throw new FolderError('config.json in it does not say max_position_embeddings');
  const generation = readAs(generationConfig, join(folder, 'generation_config.json'));
  const stopIds = [...listed(generation?.eos_token_id), ...listed(merged.eos_token_id)];
  const outside = stopIds.find((id) => id >= vocab_size);
  if (outside !== undefined)
    throw new FolderError(`its eos_token_id is ${outside}, but the vocabulary has ${vocab_size} tokens`);
  const dtype = merged.dtype ?? merged.torch_dtype;
  return {
    architecture: architectures.get(model_type) ?? model_type,
    contextLength,
    vocabSize: vocab_size,
    quantKind: dtype === undefined || dtype === null ? undefined : (dtypes.get(dtype) ?? dtype),
    stopIds: [...new Set(stopIds)],
  };
}

export function readTokenizerConfig(folder: string) {
  const read = readAs(tokenizerConfig, join(folder, 'tokenizer_config.json'));
  const templates = read?.chat_template ?? undefined;
  return {
    special: {
      bosToken: read?.bos_token ?? undefined,
      eosToken: read?.eos_token ?? undefined,
      addBos: read?.add_bos_token ?? undefined,
      addEos: read?.add_eos_token ?? undefined,
    },
    template:
      typeof templates === 'object' ? templates.find(({ name }) => name === 'default')?.template : templates,
  };
}

function listed(ids: number | readonly number[] | null | undefined): readonly number[] {
  if (ids === null || ids === undefined) return [];
  return typeof ids === 'number' ? [ids] : ids;
}
