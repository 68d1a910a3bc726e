/** Measures how long it takes to read a model, and how long the event loop, which serves open streams, is blocked meanwhile. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { loadModel } from '../../gateway/models/model-slot.ts';
import { largeVocabularyFile } from '../fixtures/large-vocabulary.ts';
import { longestPauseMs } from '../fixtures/loop-time.ts';
import type { TemporaryFolder } from '../fixtures/temporary-folder.ts';
import { readVocabulary } from '../vocabularies/vocabularies.ts';
import { median } from './statistics.ts';

/** The size of Gemma's vocabulary. */
const largeTokens = 262_144;

export interface Reading {
  /** Time until the model is ready, including the start of its thread. */
  readonly readyMs: number;
  /** The most processor time that the event loop's thread took between two turns. */
  readonly pauseMs: number;
}

/** Medians over this many rounds. Pauses of an additional first round, in which the code is compiled, do not count. */
export async function readingOf(path: string, rounds: number): Promise<Reading> {
  const readyMs: number[] = [];
  const pausesMs: number[] = [];
  for (let round = 0; round <= rounds; round++) {
    const startMs = performance.now();
    let endMs = startMs;
    const pauseMs = await longestPauseMs(async () => {
      const model = await loadModel(path);
      endMs = performance.now();
      model.tokenizer.close();
    });
    if (round === 0) continue;
    readyMs.push(endMs - startMs);
    pausesMs.push(pauseMs);
  }
  return { readyMs: median(readyMs), pauseMs: median(pausesMs) };
}

export function told({ readyMs, pauseMs }: Reading): string {
  return `ready in ${readyMs.toFixed(0)} ms, the loop's longest pause ${pauseMs.toFixed(1)} ms`;
}

/** A GGUF file with as many tokens as Gemma's. */
export function largeModel(folder: TemporaryFolder): string {
  return folder.write('large.gguf', largeVocabularyFile(largeTokens));
}

/** A model folder without weights that has a published vocabulary. */
export function modelOfVocabulary(folder: TemporaryFolder, name: string): string {
  const path = join(folder.path, name);
  mkdirSync(path);
  const { model, added_tokens } = JSON.parse(readVocabulary(name).toString('utf8'));
  const ids: number[] = [
    ...Object.values<number>(model.vocab),
    ...added_tokens.map(({ id }: { id: number }) => id),
  ];
  const vocab_size = ids.reduce((most, id) => Math.max(most, id + 1), 0);
  const config = { model_type: 'llama', vocab_size, max_position_embeddings: 8192 };
  writeFileSync(join(path, 'config.json'), JSON.stringify(config));
  writeFileSync(join(path, 'model.safetensors'), '');
  for (const file of ['tokenizer.json', 'tokenizer_config.json'])
    writeFileSync(join(path, file), readVocabulary(name, file));
  return path;
}
