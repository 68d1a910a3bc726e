/** Threads of the gateway that run programs of their own. */
import { Worker } from 'node:worker_threads';
import { bundleOf } from '../bundle.js';

/** A program of a thread: its name is that of its file in the bundle. */
export interface ThreadProgram {
  readonly name: 'model-reader' | 'text-encoder';
  readonly source: URL;
}

/** Once found, not looked for again: an edit under a running gateway is not half taken up. */
const bundles = new Map<string, string>();

/** The file of the bundle, undefined where the sources are to be run. To look for it the first time takes a while. */
export function findProgram({ name }: ThreadProgram): string | undefined {
  const found = bundles.get(name) ?? bundleOf(name);
  if (found !== undefined) bundles.set(name, found);
  return found;
}

/** workerData: what the program begins with. heapMb: it ends with ERR_WORKER_OUT_OF_MEMORY when it takes more. */
export function newThread(program: ThreadProgram, workerData: unknown, heapMb: number): Worker {
  // None of this process's flags: a loader of sources would be started for each thread.
  const options = { workerData, execArgv: [], resourceLimits: { maxOldGenerationSizeMb: heapMb } };
  const bundle = findProgram(program);
  if (bundle !== undefined) return new Worker(bundle, options);
  // Sources need tsx, which a thread does not begin with.
  const tsx = JSON.stringify(import.meta.resolve('tsx/esm/api'));
  const source = JSON.stringify(program.source.href);
  const start = `import(${tsx}).then(({ register }) => { register(); return import(${source}); })`;
  return new Worker(start, { ...options, eval: true });
}
