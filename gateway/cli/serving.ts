import type { Config } from '../config/config.ts';
import type { Model } from '../models/model.ts';
import type { ModelRegistry } from '../models/model-registry.ts';
import type { RunnerInfo } from '../runner/runner.ts';
import type { RunnerCrash } from '../runner/supervision/crash.ts';
import type { RunnerEvent } from '../runner/supervision/runner-event.ts';
import type { Log } from '../telemetry/log.ts';
import type { Metrics } from '../telemetry/metrics.ts';

/** What `runnel serve` serves: one model (one-model.ts) or several (several-models.ts). */
export interface Serving {
  readonly models: ModelRegistry;
  readonly metrics: Metrics;
  /** Called when HTTP listens. */
  start(): void;
  /**
   * Applies new settings. only: the name of the only model that gets a new runner. Resolves when the new runner serves, or with
   * the reason why it does not. Throws UsageError or ModelFileError for settings that cannot be used.
   */
  reload(next: Config, only: string | undefined): Promise<string | undefined>;
  stop(drainMs: number): Promise<void>;
}

/** Events of what is served. model: the model's name, if there are several. */
export interface ServingEvents {
  readonly log: Log;
  /** A runner is ready. */
  onServed(info: RunnerInfo, model: Model): void;
  onCrash(crash: RunnerCrash, model?: string): void;
  /** An event of a runner of the only model, or of the default model. */
  onEvent(event: RunnerEvent): void;
}
