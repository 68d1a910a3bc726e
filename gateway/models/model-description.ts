import type { TokenizerTables } from '../tokenizer/tables.ts';
import type { ModelPooling } from './model-pooling.ts';

/** What was read of a model, GGUF file or Hugging Face folder, as plain values that the model's reader can send. */
export interface ModelDescription {
  readonly architecture: string;
  /** Positions the model was trained for. */
  readonly contextLength: number;
  readonly tables: TokenizerTables;
  /** Tokens that end an answer. */
  readonly stopIds: readonly number[];
  /** This and the next two are as in Model. */
  readonly tokenizerPre: string | undefined;
  readonly quantKind: string | undefined;
  readonly pooling: ModelPooling | undefined;
  /** Source of the chat template. */
  readonly template: string | undefined;
  /** Modification time of the file with the weights, in seconds since 1970. */
  readonly created: number;
  /** Identity of that file, by identityOf(). */
  readonly file: string;
  /** Device that holds the file, as stat numbers it. */
  readonly device: bigint;
}
