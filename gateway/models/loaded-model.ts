import { messageOf } from '../errors/thrown.ts';
import { CountersOverLives, countersOf } from '../runner/protocol/scheduler-stats.ts';
import type { Runner, RunnerInfo, RunnerStatus } from '../runner/runner.ts';
import { RunnerPool, type RunnerPoolOptions } from '../runner/supervision/runner-pool.ts';
import {
  type CacheSize,
  type RunnerLauncher,
  type RunnerSpec,
  specOf,
} from '../runner/supervision/runner-spec.ts';
import { retryAfterSec } from '../runner/supervision/supervisor.ts';
import type { Model } from './model.ts';
import type { ModelSlot } from './model-slot.ts';

/**
 * A model in memory: its runners, and its file as the gateway has read it. Nothing is served before both are known to be the
 * same. Another runner of the same file goes on with the open streams; one of another file cannot, so model-lifecycle.ts lets
 * them finish first.
 */

export interface LoadedModelOptions extends Omit<RunnerPoolOptions, keyof RunnerSpec> {
  /** Called for every runner that becomes ready and has read the same model as the gateway. */
  readonly onServed?: (info: RunnerInfo, model: Model) => void;
  /** The KV cache that was planned for the first runner; absent: the runner decides. */
  readonly cache?: CacheSize | undefined;
}

/** What to serve. Runners can go on with each other's streams only if they have the same slot. */
export interface Deployment {
  readonly slot: ModelSlot;
  readonly launch: RunnerLauncher;
}

/** After this many runners in a row with another file than the gateway's, the model counts as failed. */
export const maxRunnersOfOtherFiles = 3;

/** A loaded model as its lifecycle needs it. */
export interface Loaded
  extends Pick<LoadedModel, 'model' | 'slot' | 'slotOf' | 'settle' | 'replace' | 'status' | 'stop'> {
  readonly pool: Pick<RunnerPool, 'start' | 'whenIdle' | 'failOpen' | 'numOpenInBackground'> & Runner;
}

export class LoadedModel {
  readonly #options: LoadedModelOptions;
  readonly pool: RunnerPool;
  /** What the runner that serves, or that is expected to, was started for. */
  #deployed: Deployment;
  /** Why the ready runner cannot serve the model that the gateway has read. isFinal: neither is tried again. */
  #difference: { readonly reason: string; readonly isFinal: boolean } | undefined;
  /** Runners in a row that had another file than the gateway. */
  #numOfOtherFiles = 0;

  constructor(slot: ModelSlot, launch: RunnerLauncher, options: LoadedModelOptions) {
    this.#options = options;
    this.#deployed = { slot, launch };
    this.pool = new RunnerPool({ ...options, ...this.#specOf(this.#deployed, options.cache) });
  }

  /** The slot of the runner that serves, or that is expected to. */
  get slot(): ModelSlot {
    return this.#deployed.slot;
  }

  /**
   * The model that is served. Undefined until it is loaded, while it cannot be loaded, and while the last ready runner has
   * another file.
   */
  get model(): Model | undefined {
    const model = this.slot.current;
    const { info } = this.pool.status();
    if (model === undefined || info === undefined) return model;
    return differenceOf(model, info) === undefined ? model : undefined;
  }

  /**
   * The slot of the model at this path: the current one or `next` if the file is the one that it has, else a new one. Reads the
   * file first, so that nothing is given up for a file that no runner could use. Throws ModelFileError.
   */
  async slotOf(path: string, next: ModelSlot | undefined): Promise<ModelSlot> {
    for (const slot of [next, this.slot]) if (await slot?.holds(path)) return slot as ModelSlot;
    const slot = this.slot.other(path);
    await slot.refresh();
    return slot;
  }

  /** Replacements are coming: the launcher no longer probes for a better backend. */
  settle(): void {
    this.#deployed.launch.leave?.();
    this.#numOfOtherFiles = 0;
  }

  /** Replaces the runners, as RunnerPool.replaceRunner() does. */
  replace(deployment: Deployment): Promise<string | undefined> {
    return this.pool.replaceRunner(this.#specOf(deployment));
  }

  /** Has another device compute from now on, where open requests go on. Returns whether there is one. */
  retireDevice(reason: string): boolean {
    const launch = this.#deployed.launch.retire?.(reason);
    if (launch === undefined) return false;
    void this.replace({ slot: this.slot, launch });
    return true;
  }

  status(): RunnerStatus {
    const backend = this.#deployed.launch.status?.();
    const status = { ...this.pool.status(), ...(backend === undefined ? {} : { backend }) };
    if (this.#difference === undefined || status.state !== 'ready') return status;
    const { reason, isFinal } = this.#difference;
    return isFinal
      ? { ...status, state: 'failed', reason }
      : { ...status, state: 'recovering', reason, retryAfterSec };
  }

  async stop(drainMs: number): Promise<void> {
    this.#deployed.launch.leave?.();
    await this.pool.stop(drainMs);
    // A runner for the open requests may have become ready meanwhile and started its launcher's probe.
    this.#deployed.launch.leave?.();
    this.slot.close();
  }

  #specOf({ slot, launch }: Deployment, planned?: CacheSize): RunnerSpec {
    const events = {
      // Starts the template's process while the runner loads, so that it is ready for the first chat.
      onRead: () => slot.current?.chatTemplate?.start(),
      onReady: (info: RunnerInfo, launched: RunnerLauncher) => {
        if (slot !== this.slot) this.slot.close();
        this.#deployed = { slot, launch: launched };
        void this.#serve(slot, info);
      },
    };
    return specOf(slot, launch, events, planned);
  }

  /** Called when a runner is ready. The model is served once gateway and runner are known to have read the same file. */
  async #serve(slot: ModelSlot, info: RunnerInfo): Promise<void> {
    const { log, onServed } = this.#options;
    const model = slot.current;
    this.#difference = undefined;
    if (model !== undefined && differenceOf(model, info) === undefined) {
      this.#numOfOtherFiles = 0;
      onServed?.(info, model);
      return;
    }
    const reason = 'The model file was replaced while it was being loaded; it is being read again.';
    const difference = { reason, isFinal: false };
    this.#difference = difference;
    const files = { runner: info.modelIdentity, gateway: model?.file };
    log({ level: 'warn', event: 'model_file_differs', ...files });
    const agreed = await agreeOn(slot, info);
    // Another runner has become ready meanwhile.
    if (this.#difference !== difference) return;
    if (typeof agreed === 'string') {
      this.#numOfOtherFiles += 1;
      if (this.#numOfOtherFiles < maxRunnersOfOtherFiles) {
        // The runner's file has been replaced since, or was incomplete when it was read. The next runner opens what is there
        // now.
        void this.replace({ ...this.#deployed, slot });
        return;
      }
      this.#difference = { reason: agreed, isFinal: true };
      log({ level: 'error', event: 'model_failed', reason: agreed, isRetriable: false });
      return;
    }
    this.#difference = undefined;
    this.#numOfOtherFiles = 0;
    onServed?.(info, agreed);
  }
}

/**
 * Why a runner with this info cannot serve the model; undefined if it can. The gateway and the runner open the file one after
 * the other, and it may be replaced in between. Token ids of the one would then mean other text to the other.
 */
export function differenceOf(model: Model, info: RunnerInfo): string | undefined {
  const { path, file, architecture, tokenizer } = model;
  if (!info.modelIdentity.endsWith(`-${file}`))
    return `The runner and the gateway have read different versions of ${path}: the runner's is ${info.modelIdentity}, the gateway's ${file} (size, time and inode).`;
  if (info.architecture !== architecture)
    return `The runner computes a model of architecture ${info.architecture}, but ${path} says ${architecture}.`;
  if (info.vocabSize !== tokenizer.vocabSize)
    return `The runner has a vocabulary of ${info.vocabSize} tokens, but that of ${path} has ${tokenizer.vocabSize}.`;
  return undefined;
}

/** Reads the slot's file once more. Returns the model if the runner has read the same one, or a sentence that says why not. */
async function agreeOn(slot: ModelSlot, info: RunnerInfo): Promise<Model | string> {
  try {
    await slot.refresh();
  } catch (error) {
    return messageOf(error);
  }
  if (slot.current === undefined) return `The model ${slot.path} does not exist any more.`;
  return differenceOf(slot.current, info) ?? slot.current;
}

/** The status where there is no runner. */
const absent: RunnerStatus = {
  state: 'starting',
  reason: undefined,
  pid: undefined,
  restarts: 0,
  openRequests: 0,
  openTokens: 0,
  loadProgress: undefined,
  retryAfterSec: undefined,
  info: undefined,
  numFreeBlocks: undefined,
  stats: undefined,
  counters: countersOf(() => 0),
};

/** The times that one model is loaded, one after the other, with what is counted over all of them. */
export class Loads {
  #current: Loaded | undefined;
  readonly #counters = new CountersOverLives();
  #pastRestarts = 0;
  #ended: Promise<void> = Promise.resolve();

  get current(): Loaded | undefined {
    return this.#current;
  }

  begin(loaded: Loaded): void {
    this.#current = loaded;
  }

  /** Ends the current load, if there is one. */
  end(): Promise<void> {
    this.#ended = this.#ended.then(async () => {
      const loaded = this.#current;
      if (loaded === undefined) return;
      await loaded.stop(0);
      const { counters, restarts } = loaded.status();
      this.#counters.update(counters);
      this.#counters.endLife();
      this.#pastRestarts += restarts;
      this.#current = undefined;
    });
    return this.#ended;
  }

  /** Resolves when a load that is being ended has ended. */
  whenEnded(): Promise<void> {
    return this.#ended;
  }

  status(): RunnerStatus {
    const status = this.#current?.status() ?? absent;
    this.#counters.update(status.counters);
    const restarts = this.#pastRestarts + status.restarts;
    return { ...status, restarts, counters: this.#counters.sum() };
  }
}
