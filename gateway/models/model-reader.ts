/** The program of the thread that reads a model (see load-model.ts). */
import { parentPort, workerData } from 'node:worker_threads';
import { ModelFileError } from '../errors/model-file-error.ts';
import { marksIn, type TemplateMarks } from '../prompt/template-marks.ts';
import type { ModelDescription } from './model-description.ts';
import { readModel } from './read-model.ts';

/** The thread's one answer. */
export type ReadModel =
  /** marks: undefined without a template. */
  | { readonly description: ModelDescription; readonly marks: TemplateMarks | undefined }
  | { readonly exitCode: ModelFileError['exitCode']; readonly message: string };

async function read(path: string): Promise<ReadModel> {
  try {
    const description = await readModel(path);
    const { template } = description;
    return { description, marks: template === undefined ? undefined : marksIn(template) };
  } catch (error) {
    if (error instanceof ModelFileError) return { exitCode: error.exitCode, message: error.message };
    throw error;
  }
}

parentPort?.postMessage(await read(workerData));
