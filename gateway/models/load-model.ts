/**
 * Loads a Model from a path. A thread of its own reads the file: a vocabulary of a quarter of a million tokens takes most of
 * a second, and no stream may wait for that. The tables that the thread makes are in shared memory.
 */
import { ModelFileError } from '../errors/model-file-error.ts';
import { ChatTemplateError } from '../prompt/chat-template.ts';
import { JinjaChatTemplate } from '../prompt/jinja-chat-template.ts';
import { inSlices, type Task } from '../system/cooperative-scheduler.ts';
import { newThread, type ThreadProgram } from '../system/program-thread.ts';
import { BpeTokenizer } from '../tokenizer/bpe-tokenizer.ts';
import { EncoderThread } from '../tokenizer/encoder-thread.ts';
import { TokenizerError } from '../tokenizer/tokenizer-error.ts';
import { type Model, modelIdOf } from './model.ts';
import type { ReadModel } from './model-reader.ts';

const modelReader: ThreadProgram = {
  name: 'model-reader',
  source: new URL('./model-reader.ts', import.meta.url),
};

type Read = Extract<ReadModel, { readonly description: unknown }>;

/** Heap limit of the thread. */
const heapMb = 2048;

/** Throws ModelFileError. */
export async function loadModel(path: string): Promise<Model> {
  try {
    return await inSlices(modelOf(path, await readInThread(path)));
  } catch (error) {
    if (!(error instanceof TokenizerError) && !(error instanceof ChatTemplateError)) throw error;
    throw new ModelFileError(65, `The model ${path} cannot be used: ${error.message}.`, { cause: error });
  }
}

function* modelOf(path: string, { description: { tables, template, ...facts }, marks }: Read): Task<Model> {
  const tokenizer = yield* BpeTokenizer.of(tables, new EncoderThread(tables));
  const hasTemplate = template !== undefined && marks !== undefined;
  const chatTemplate = hasTemplate ? yield* JinjaChatTemplate.of(template, marks, tokenizer) : undefined;
  return { path, id: modelIdOf(path), ...facts, tokenizer, chatTemplate };
}

async function readInThread(path: string): Promise<Read> {
  const thread = newThread(modelReader, path, heapMb);
  try {
    const read = await new Promise<ReadModel>((resolve, reject) => {
      thread.once('message', resolve);
      thread.once('error', reject);
      thread.once('exit', () => reject(new Error(`The thread that reads ${path} ended without an answer.`)));
    });
    if ('description' in read) return read;
    throw new ModelFileError(read.exitCode, read.message);
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'ERR_WORKER_OUT_OF_MEMORY'))
      throw error;
    const message = `The model ${path} cannot be used: reading its vocabulary takes more than ${heapMb} MB of memory.`;
    throw new ModelFileError(65, message, { cause: error });
  } finally {
    await thread.terminate();
  }
}
