import { RUNNER_LIMITS, type RunnerConfig } from '../config/runner-settings.ts';
import { LoadedModel } from '../models/loaded-model.ts';
import type { Model } from '../models/model.ts';
import type { ModelSlot } from '../models/model-slot.ts';
import type { Runner, RunnerInfo } from '../runner/runner.ts';
import type { RunnerEvent } from '../runner/supervision/runner-event.ts';
import { createLog, runnerLog } from '../telemetry/log.ts';
import { chooseLauncher } from './choose-launcher.ts';
import { FirstLoad } from './first-load.ts';

/** A model that a command computes with, without a server. */
export interface OfflineModel {
  readonly model: Model;
  readonly info: RunnerInfo;
  readonly runner: Runner;
}

/**
 * Starts a runner for the model of the slot, which has been read, and ends it after `use`. maxOpen: the most requests at once. Throws
 * UnavailableError if no runner becomes ready.
 */
export async function withOfflineModel(
  slot: ModelSlot,
  config: RunnerConfig,
  maxOpen: number,
  use: (offline: OfflineModel) => Promise<void>,
): Promise<void> {
  const firstLoad = new FirstLoad();
  const toLog = runnerLog(createLog('warn'));
  const log = (event: RunnerEvent): void => {
    toLog(event);
    firstLoad.observe(event);
  };
  let succeed: (served: { info: RunnerInfo; model: Model }) => void = () => {};
  const ready = new Promise<{ info: RunnerInfo; model: Model }>((resolve) => (succeed = resolve));
  const loaded = new LoadedModel(slot, chooseLauncher(config, { log }), {
    maxOpenRequests: maxOpen,
    maxQueuedTokens: RUNNER_LIMITS.promptTokens,
    log,
    onServed: (info, model) => succeed({ info, model }),
  });
  loaded.pool.start();
  try {
    // A second runner is not awaited.
    await use({ ...(await firstLoad.orFailed(ready)), runner: loaded.pool });
  } finally {
    await loaded.stop(0);
  }
}
