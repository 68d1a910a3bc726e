/** Describes a model from a folder in Hugging Face's layout: config.json, tokenizer.json and weights as safetensors. */
import { existsSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import * as z from 'zod';
import { ModelFileError } from '../../errors/thrown.ts';
import { tablesOfTokenizerJson } from '../../tokenizer/huggingface/tokenizer-json.ts';
import { identityOf, type ModelDescription, requireKnownArchitecture } from '../model.ts';
import { identifyingFile, pickles, tokenizerFolders, weightFiles, whyNoPickle } from './folder-files.ts';
import { FolderError, orFolderError, readAs, readText, readUtf8 } from './json-file.ts';
import { readSentencePooling } from './sentence-modules.ts';

/** Throws FolderError, TokenizerError or ModelFileError, and the errors of reading itself. */
export function describeFolder(path: string): ModelDescription {
  if (!existsSync(join(path, 'config.json')))
    throw new ModelFileError(66, `The model ${path} is a folder, but there is no config.json in it.`);
  const { vocabSize, stopIds, ...config } = readConfig(path);
  requireKnownArchitecture(path, config.architecture);
  const stats = statSync(weightsIn(path), { bigint: true });
  const file = findTokenizer(path);
  const { special, template } = readTokenizerConfig(dirname(file));
  const bytes = readUtf8(file);
  if (bytes === undefined) throw new FolderError(`${file} was removed while it was being read`);
  const tables = orFolderError(file, () => tablesOfTokenizerJson(bytes, special, vocabSize));
  const { eosId } = tables;
  return {
    ...config,
    tables,
    tokenizerPre: undefined,
    pooling: readSentencePooling(path),
    stopIds: [...new Set([...(eosId === undefined ? [] : [eosId]), ...stopIds])],
    template: readText(join(dirname(file), 'chat_template.jinja')) ?? template,
    created: Math.floor(Number(stats.mtimeMs) / 1000),
    file: identityOf(stats),
    device: stats.dev,
  };
}

function weightsIn(folder: string): string {
  const file = identifyingFile(folder);
  if (file !== folder) return file;
  const pickle = pickles.find((name) => existsSync(join(folder, name)));
  if (pickle !== undefined)
    throw new FolderError(
      `its weights are a pickle (${pickle}), ${whyNoPickle}; fetch or convert them as safetensors`,
    );
  throw new FolderError(`there is neither ${weightFiles.join(' nor ')} in it`);
}

function findTokenizer(folder: string): string {
  const searched = tokenizerFolders(folder).map((place) => join(place, 'tokenizer.json'));
  const found = searched.find((file) => existsSync(file));
  if (found !== undefined) return found;
  throw new FolderError(`Tokenizer not found. Searched paths: ${searched.join(', ')}`);
}

const countUpTo = (most: number) => z.int().min(1).max(most).optional();
const ids = z.union([z.int().min(0), z.array(z.int().min(0)).max(64)]).nullish();
const textConfig = z.object({
  model_type: z.string().max(80),
  vocab_size: countUpTo(2 ** 20),
  max_position_embeddings: countUpTo(2 ** 31 - 1),
  /** GPT-2's name for max_position_embeddings. */
  n_positions: countUpTo(2 ** 31 - 1),
  eos_token_id: ids,
  bos_token_id: ids,
  pad_token_id: z.int().nullish(),
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
  ['mixtral', 'llama'],
  ['gemma3_text', 'gemma3'],
  ['qwen3_moe', 'qwen3moe'],
  ['gpt_oss', 'gpt-oss'],
  ['nomic_bert', 'nomic-bert'],
  ['roberta', 'bert'],
  ['xlm-roberta', 'bert'],
]);
const dtypes: ReadonlyMap<string, string> = new Map([
  ['float32', 'F32'],
  ['float16', 'F16'],
  ['bfloat16', 'BF16'],
]);

interface FolderConfig {
  readonly architecture: string;
  readonly contextLength: number;
  readonly vocabSize: number;
  readonly quantKind: string | undefined;
  readonly stopIds: readonly number[];
}

function readConfig(folder: string): FolderConfig {
  const read = readAs(config, join(folder, 'config.json'));
  if (read === undefined) throw new FolderError('there is no config.json in it');
  const merged = { ...read, ...read.text_config };
  const { vocab_size, max_position_embeddings, n_positions } = merged;
  const model_type = merged.model_type ?? read.model_type;
  // RoBERTa gives the first token the position behind pad_token_id.
  const firstPosition = model_type.endsWith('roberta') ? (merged.pad_token_id ?? 1) + 1 : 0;
  const numPositions = max_position_embeddings ?? n_positions;
  if (vocab_size === undefined) throw new FolderError('config.json in it does not say vocab_size');
  if (numPositions === undefined)
    throw new FolderError('config.json in it does not say max_position_embeddings');
  const contextLength = numPositions - firstPosition;
  if (firstPosition < 0 || contextLength < 1)
    throw new FolderError(
      `its pad_token_id is ${merged.pad_token_id}, but max_position_embeddings is ${numPositions}`,
    );
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

function readTokenizerConfig(folder: string) {
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
