import { statSync } from 'node:fs';
import { type Config, hasSeveralModels } from '../config/config.ts';
import { UsageError } from '../errors/exit-code.ts';
import { messageOf, UnavailableError } from '../errors/thrown.ts';
import { AdmissionGate } from '../models/admission-gate.ts';
import { identifyingFile } from '../models/huggingface/folder-files.ts';
import { LoadedModel } from '../models/loaded-model.ts';
import { type Model, modelIdOf } from '../models/model.ts';
import { ModelLifecycle } from '../models/model-lifecycle.ts';
import { ModelLoader } from '../models/model-loader.ts';
import { ModelRegistry, type ServedModel } from '../models/model-registry.ts';
import { Audits } from '../runner/audits.ts';
import { requireUsable } from '../runner/kv-disk/block-file.ts';
import { KvDisk } from '../runner/kv-disk/kv-disk.ts';
import { ObservedRunner, type RequestObserver, TimeLimit } from '../runner/observed-runner.ts';
import type { RunnerInfo, RunnerStatus } from '../runner/runner.ts';
import { crashKind, type RunnerCrash } from '../runner/supervision/exit-policy.ts';
import type { RunnerEvent } from '../runner/supervision/runner-event.ts';
import type { RunnerLauncher } from '../runner/supervision/runner-spec.ts';
import { systemClock } from '../system/clock.ts';
import { type Log, runnerLog } from '../telemetry/log.ts';
import { Metrics } from '../telemetry/metrics.ts';
import type { ModelMetrics } from '../telemetry/model-metrics.ts';
import { Auditor } from './auditor.ts';
import { chooseLauncher } from './choose-launcher.ts';
import { memoryNeedOf } from './memory-need.ts';
import { modelsOf, type NamedModel } from './model-list.ts';
import { gateOptions, kvDiskOptions, loadedOptions } from './server-settings.ts';

/** Events of what is served. model: the model's name, if there are several. */
interface ServingEvents {
  readonly log: Log;
  /** A runner is ready. */
  onServed(info: RunnerInfo, model: Model): void;
  onCrash(crash: RunnerCrash, model?: string): void;
  /** An audit has found an answer of this runner that differs. */
  onDiffers(reason: string, runner: RunnerStatus): void;
  /** The model waits for the end of its requests, or of those in the background, to be unloaded. */
  onTurnOver(model: ServedModel, isInBackground: boolean): void;
  /** An event of a runner of the default model. */
  onEvent(event: RunnerEvent): void;
  /** Of the requests to all models, besides what times and counts them. */
  readonly observers: readonly RequestObserver[];
}

/** What `runnel serve` serves. A single model is pinned and alone; of several, the others are loaded on demand. */
export class Serving {
  readonly models: ModelRegistry;
  readonly metrics = new Metrics(systemClock.now);
  readonly #config: Config;
  readonly #events: ServingEvents;
  readonly #isAlone: boolean;
  readonly #limit: TimeLimit;
  readonly #loader: ModelLoader;
  /** The settings for the runners that are started next. */
  #settings: Config;
  readonly #byPath: Map<string, ModelLifecycle>;
  /** Undefined if no answer is audited. */
  readonly #auditor: Auditor | undefined;
  /** Undefined if KV caches are kept in memory only. */
  readonly #disk: KvDisk | undefined;

  /** Throws UsageError or ModelFileError for settings that cannot be used. */
  constructor(config: Config, events: ServingEvents) {
    this.#config = config;
    this.#events = events;
    this.#settings = config;
    this.#isAlone = !hasSeveralModels(config);
    this.#limit = new TimeLimit(config['inference-timeout-sec'] * 1000, Date.now);
    this.#loader = new ModelLoader({
      budgetBytes: config['memory-budget-bytes'],
      keepAliveMs: config['model-keep-alive-sec'] * 1000,
      timeSliceMs: config['time-slice'] && config['time-slice'] * 1000,
      onTurnOver: (model, isInBackground) => events.onTurnOver(model, isInBackground),
      onUnload: ({ path }, reason) => events.log.info({ event: 'model_unloaded', model: path, reason }),
    });
    this.#auditor = config['audit-share'] === 0 ? undefined : new Auditor(config, runnerLog(events.log));
    const named = modelsOf(config);
    requireKnown(config['pinned-models'], named);
    requireRunner(config);
    this.#disk = openDisk(config, events.log);
    if (this.#disk !== undefined) this.metrics.showKvDisk(this.#disk);
    this.#byPath = new Map(named.map((each) => [each.path, this.#served(each)]));
    this.models = new ModelRegistry([...this.#byPath.values()]);
  }

  /** Loads the first model and the pinned ones. Called when HTTP listens. */
  start(): void {
    for (const model of this.#byPath.values())
      if (model === this.models.default || model.isPinned) model.start();
  }

  /**
   * Applies new settings. only: the name of the only model that gets a new runner. Resolves when the new runners serve, or with
   * the reason why one does not. Throws UsageError or ModelFileError for settings that cannot be used.
   */
  reload(next: Config, only: string | undefined): Promise<string | undefined> {
    const named = modelsOf(next);
    requireRunner(next);
    this.#settings = next;
    const left = only === undefined && !this.#isAlone ? this.#replaceModels(named) : [];
    const restarted = [...this.#byPath.values()].filter(
      ({ names }) => only === undefined || names.includes(only),
    );
    return this.#restartAll(restarted, named, left);
  }

  /** Open requests may finish for at most drainMs. */
  async stop(drainMs: number): Promise<void> {
    await Promise.all([this.#loader.stop(drainMs), this.#auditor?.stop()]);
    await this.#disk?.close();
  }

  #served({ path, names }: NamedModel): ModelLifecycle {
    const config = this.#config;
    const isAlone = this.#isAlone;
    const nameOf = (id: string): string => names[0] ?? id;
    let name = nameOf(modelIdOf(path));
    // A single model is in each line of the log.
    const log = isAlone ? this.#events.log : this.#events.log.child({ model: path });
    const toLog = runnerLog(log);
    const metrics = this.metrics.add(name, () => model.status());
    const gate = new AdmissionGate(gateOptions(config, ({ code }) => metrics.onRefused(code.toLowerCase())));
    const onEvent = (event: RunnerEvent): void => {
      toLog(event);
      if (isAlone || this.models.default === model) this.#events.onEvent(event);
    };
    let loaded: LoadedModel | undefined;
    const model: ModelLifecycle = new ModelLifecycle({
      ...{ names, path, gate },
      created: () => modifiedSec(path),
      isPinned: isAlone || names.some((each) => config['pinned-models'].includes(each)),
      shared: isAlone
        ? undefined
        : {
            loader: this.#loader,
            memoryNeed: () => memoryNeedOf(path, this.#settings),
            onRefused: (reason) =>
              onEvent({ level: 'error', event: 'model_failed', reason, isRetriable: true }),
          },
      runnerOf: (runner) => {
        const audits = this.#audits(() => loaded, metrics);
        const observers = [this.#limit, metrics, ...audits, ...this.#events.observers];
        return new ObservedRunner(runner, observers, systemClock.now);
      },
      drainMs: config['drain-timeout-sec'] * 1000,
      log: onEvent,
      loadedOf: (slot, hooks) => {
        loaded = new LoadedModel(
          slot,
          this.#launchOf(this.#settings, log, () => model),
          {
            ...loadedOptions(config),
            cache: hooks.cache,
            disk: this.#disk?.pool(),
            log: (event) => {
              onEvent(event);
              hooks.onEvent(event);
            },
            onServed: (info, read) => {
              hooks.onServed(info);
              this.metrics.replace(name, nameOf(read.id));
              name = nameOf(read.id);
              this.#events.onServed(info, read);
            },
            onParked: () => metrics.onParked(),
            onCrash: (crash) => {
              metrics.onCrash(crashKind(crash));
              this.#events.onCrash(crash, isAlone ? undefined : name);
            },
          },
        );
        return loaded;
      },
    });
    this.#loader.add(model);
    return model;
  }

  /** The observer that has answers audited, if there is one. */
  #audits(loadedNow: () => LoadedModel | undefined, metrics: ModelMetrics): RequestObserver[] {
    const auditor = this.#auditor;
    if (auditor === undefined) return [];
    const { log, onDiffers } = this.#events;
    const { 'audit-share': share, 'audit-policy': policy } = this.#config;
    const status = (): RunnerStatus | undefined => loadedNow()?.status();
    return [
      new Audits({
        share,
        random: Math.random,
        now: systemClock.now,
        audited: () => status()?.info,
        auditor: async (info) => {
          const loaded = loadedNow();
          if (loaded === undefined) throw new UnavailableError('The model is not loaded.');
          return auditor.ready(loaded.slot, info);
        },
        onAudited: (result, reason) => {
          metrics.onAudited(result);
          if (result === 'unverifiable') log.warn({ event: 'audit_unverifiable', reason });
          const audited = status();
          if (result !== 'differs' || audited === undefined) return;
          log.error({ event: 'audit_differs', reason });
          onDiffers(reason, audited);
          if (policy === 'retire') loadedNow()?.retireDevice(reason);
        },
      }),
    ];
  }

  /**
   * Replaces the list of models. Models that are still named stay as they are; a model with other names counts as another
   * model. Returns promises of the end of the models that are gone.
   */
  #replaceModels(next: readonly NamedModel[]): Promise<void>[] {
    const isSame = ({ path, names }: NamedModel): boolean =>
      this.#byPath.get(path)?.names.join('\n') === names.join('\n');
    const gone = [...this.#byPath.values()].filter(
      (model) => !next.some((each) => each.path === model.path && isSame(each)),
    );
    for (const model of gone) {
      this.#byPath.delete(model.path);
      this.metrics.remove(model.name);
    }
    for (const each of next)
      if (!this.#byPath.has(each.path)) this.#byPath.set(each.path, this.#served(each));
    this.models.replace(next.flatMap(({ path }) => this.#byPath.get(path) ?? []));
    return gone.map((model) => this.#loader.remove(model, this.#config['drain-timeout-sec'] * 1000));
  }

  /** Gives the models new runners. A model that is alone is replaced by the one that is named now. */
  async #restartAll(
    restarted: readonly ModelLifecycle[],
    named: readonly NamedModel[],
    left: readonly Promise<void>[],
  ): Promise<string | undefined> {
    const { log } = this.#events;
    const failures = await Promise.all(
      restarted.map(async (model) => {
        const path = this.#isAlone ? (named[0]?.path ?? model.path) : model.path;
        const failure = await model.change(
          path,
          this.#launchOf(this.#settings, log, () => model),
        );
        if (failure === undefined) return [];
        return [this.#isAlone ? failure : `${model.name}: ${failure}`];
      }),
    );
    await Promise.all(left);
    return failures.flat().join(' ') || undefined;
  }

  #launchOf(settings: Config, log: Log, model: () => ModelLifecycle): RunnerLauncher {
    return chooseLauncher(settings, {
      log: runnerLog(log),
      moveBack: (cuda) => model().switchBackend(cuda),
    });
  }
}

/** Throws UsageError for a file that something else has written. */
function openDisk(config: Config, log: Log): KvDisk | undefined {
  const options = kvDiskOptions(config);
  if (options === undefined) return undefined;
  try {
    requireUsable(options.path);
  } catch (error) {
    throw new UsageError(`--kv-disk: ${messageOf(error)}`);
  }
  return new KvDisk({ ...options, log: ({ level, event, ...fields }) => log[level]({ event, ...fields }) });
}

/** Throws now if a runner is not built, not at the first request. */
function requireRunner(settings: Config): void {
  chooseLauncher(settings, { log: () => {} });
}

function requireKnown(pinned: readonly string[], models: readonly NamedModel[]): void {
  const names = models.flatMap((model) => model.names);
  const unknown = pinned.filter((name) => !names.includes(name));
  if (unknown.length === 0) return;
  throw new UsageError(
    `--pinned-models names ${unknown.map((name) => JSON.stringify(name)).join(', ')}, but no model has that name; the names are ${names.join(', ')}.`,
  );
}

function modifiedSec(path: string): number {
  return Math.floor((statSync(identifyingFile(path), { throwIfNoEntry: false })?.mtimeMs ?? 0) / 1000);
}
