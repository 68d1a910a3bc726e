import type { Runner } from '../runner/runner.ts';
import type { AdmissionGate } from './admission-gate.ts';
import type { Model } from './model.ts';

/** Whether a model is in memory, as clients and operators see it. */
export interface Residency {
  readonly state: 'loaded' | 'loading' | 'unloaded' | 'failed';
  /** 0 to 1 while it loads, as far as is known. */
  readonly progress: number | undefined;
  /** A sentence, when the state is not loaded. */
  readonly reason: string | undefined;
}

/** One of the models that a gateway serves, whatever becomes of its runner and of the memory that it takes. */
export interface ServedModel {
  /** It is loaded when somebody asks for it, and unloaded; else it is there from the start, or awaited. */
  readonly isOnDemand: boolean;
  /** What clients call it, none while nobody knows; answers of the native API have its file's. */
  readonly names: readonly string[];
  /** Seconds since 1970 of the modification time of its file; 0 while nobody knows. */
  readonly created: number;
  /** Undefined until it is loaded, and while it is not. */
  readonly model: Model | undefined;
  /** That of the routes. Its status tells why there is no runner, where there is none. */
  readonly runner: Runner;
  /** Where requests wait until it takes them. */
  readonly gate: AdmissionGate;
  readonly residency: Residency;
  /**
   * Has it unloaded when its requests are done, if it is loaded. loading: it is on its way, and is left alone; stays: it is not on
   * demand, or pinned.
   */
  dismiss(): 'leaves' | 'loading' | 'stays';
  /** Has it loaded, if it is not: who enters the gate then waits for that. */
  want(): void;
  /** Its tokenizer without its runner; undefined: it cannot be read, or only with its runner. */
  read(): Promise<Model | undefined>;
}
