import type { Runner } from '../runner/runner.ts';
import type { AdmissionGate } from './admission-gate.ts';
import type { Model } from './model.ts';

/** Whether a model is in memory, for clients and operators. */
export interface Residency {
  readonly state: 'loaded' | 'loading' | 'unloaded' | 'failed';
  /** 0 to 1 while the model loads; undefined if unknown. */
  readonly progress: number | undefined;
  /** A sentence; undefined when the state is loaded. */
  readonly reason: string | undefined;
}

/** One of the models that a gateway serves. It exists whether or not a runner has it in memory. */
export interface ServedModel {
  /** Whether it is loaded at the start and never unloaded. A single model is. */
  readonly isPinned: boolean;
  /** Names for clients; empty while unknown. Answers of the native API use the file's name instead. */
  readonly names: readonly string[];
  /** Modification time of the file in seconds since 1970; 0 while unknown. */
  readonly created: number;
  /** Undefined while the model is not loaded. */
  readonly model: Model | undefined;
  /** The runner for routes. While no runner process exists, its status says why. */
  readonly runner: Runner;
  /** Where requests wait until the model takes them. */
  readonly gate: AdmissionGate;
  readonly residency: Residency;
  /**
   * Has the model unloaded once nobody uses it and nobody waits for it. It keeps taking requests, and stays if one comes before
   * that. Returns false if it is pinned, and so stays.
   */
  dismiss(): boolean;
  /** Starts to load the model if it is not loaded. Requests that enter the gate then wait for it. */
  want(): void;
  /** The model with its tokenizer, read without a runner; undefined if it cannot be read, or only together with its runner. */
  read(): Promise<Model | undefined>;
}
