/** Describes a model from a folder in Hugging Face's layout: config.json, tokenizer.json and weights as safetensors. */
import { existsSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { ModelFileError } from '../../errors/model-file-error.ts';
import { tablesOfTokenizerJson } from '../../tokenizer/huggingface/tokenizer-json.ts';
import { identityOf, type ModelDescription, requireKnownArchitecture } from '../model.ts';
import { readConfig, readTokenizerConfig } from './config.ts';
import { identifyingFile, pickles, tokenizerFolders, weightFiles, whyNoPickle } from './folder-files.ts';
import { FolderError, orFolderError, readText, readUtf8 } from './json-file.ts';
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
  if (pickle !== undefined) {
    throw new FolderError(
      `its weights are a pickle (${pickle}), ${whyNoPickle}; fetch or convert them as safetensors`,
    );
  }
  throw new FolderError(`there is neither ${weightFiles.join(' nor ')} in it`);
}

function findTokenizer(folder: string): string {
  const searched = tokenizerFolders(folder).map((place) => join(place, 'tokenizer.json'));
  const found = searched.find((file) => existsSync(file));
  if (found !== undefined) return found;
  throw new FolderError(`Tokenizer not found. Searched paths: ${searched.join(', ')}`);
}
