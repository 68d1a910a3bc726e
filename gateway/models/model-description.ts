import type { TokenizerTables } from '../tokenizer/tables.ts';
import type { ModelPooling } from './model-pooling.ts';

/** What was read of a model, GGUF file or Hugging Face folder alike: plain values, as the reading thread hands them over. */
export interface ModelDescription {
  readonly architecture: string;
  /** Positions the model was trained for. */
  readonly contextLength: number;
  readonly tables: TokenizerTables;
  /** Tokens that end an answer. */
  readonly stopIds: readonly number[];
  /** See Model. */
  readonly tokenizerPre: string | undefined;
  readonly quantKind: string | undefined;
  readonly pooling: ModelPooling | undefined;
  /** Text of the chat template. */
  readonly template: string | undefined;
  /** Seconds since 1970 of the modification time of the file with the weights. */
  readonly created: number;
  /** Of that file: see identityOf. */
  readonly file: string;
  /** The device that it lies on, as stat numbers it. */
  readonly device: bigint;
}
