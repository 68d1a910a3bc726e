import type { Pooling } from '../runner/runner.ts';

/** What a model's file or folder says of how vectors are made of texts, and cannot be done here. */
export interface UnsupportedPooling {
  /** What says it and what it says, as a sentence goes on behind "The model's". */
  readonly unsupported: string;
}

export type ModelPooling = Pooling | UnsupportedPooling;

/** What GGUF files call `pooling_type`. */
const POOLING_TYPES: ReadonlyMap<number, Pooling> = new Map([
  [1, 'mean'],
  [2, 'cls'],
  [3, 'last'],
]);
/** The file says that nothing is pooled, as of models that are not made for vectors. */
const NO_POOLING = 0;

export function poolingOfType(type = NO_POOLING): ModelPooling | undefined {
  if (type === NO_POOLING) return undefined;
  return POOLING_TYPES.get(type) ?? { unsupported: `file says pooling_type ${type}` };
}
