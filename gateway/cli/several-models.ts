import { statSync } from 'node:fs';
import type { Config } from '../config/config.ts';
import { UsageError } from '../errors/exit-code.ts';
import { AdmissionGate } from '../models/admission-gate.ts';
import { identifyingFile } from '../models/huggingface/folder-files.ts';
import { loadModel } from '../models/load-model.ts';
import { ModelLoader } from '../models/model-loader.ts';
import { ModelRegistry } from '../models/model-registry.ts';
import { ModelService } from '../models/model-service.ts';
import { OnDemandModel } from '../models/on-demand-model.ts';
import type { RunnerLauncher } from '../runner/backends/runner-launcher.ts';
import { ObservedRunner } from '../runner/observed-runner.ts';
import { crashKind } from '../runner/supervision/crash.ts';
import { TimeLimit } from '../runner/time-limit.ts';
import { systemClock } from '../system/clock.ts';
import { Metrics } from '../telemetry/metrics.ts';
import { runnerLog } from '../telemetry/runner-log.ts';
import { chooseLauncher } from './choose-launcher.ts';
import { memoryNeedOf } from './memory-need.ts';
import { modelsOf, type NamedModel } from './model-list.ts';
import { gateOptions, serviceOptions } from './server-settings.ts';
import type { Serving, ServingEvents } from './serving.ts';

/** The default of --model-keep-alive-sec: how long an unused model stays loaded. */
const defaultKeepAliveSec = 300;

/** Serves models that are loaded on demand. The first model and the pinned ones are loaded at the start. */
export function serveSeveral(config: Config, events: ServingEvents): Serving {
  /** The settings for the runners that are started next. */
  let settings = config;
  const metrics = new Metrics(systemClock.now);
  const limit = new TimeLimit(config['inference-timeout-sec'] * 1000, Date.now);
  const loader = new ModelLoader({
    budgetBytes: config['memory-budget-bytes'],
    keepAliveMs: (config['model-keep-alive-sec'] ?? defaultKeepAliveSec) * 1000,
    onUnload: ({ path }, reason) => events.log.info({ event: 'model_unloaded', model: path, reason }),
  });
  const named = modelsOf(config);
  requireKnown(config['pinned-models'], named);
  // Throws now if a runner is not built, not at the first request.
  launchOf(config, events, () => undefined);

  const served = ({ path, names }: NamedModel): OnDemandModel => {
    const [name = path, ...others] = names;
    const log = events.log.child({ model: path });
    const toLog = runnerLog(log);
    const ofModel = metrics.add(name, () => model.status());
    const gate = new AdmissionGate(gateOptions(config, ({ code }) => ofModel.onRefused(code.toLowerCase())));
    const isDefault = (): boolean => models.default === model;
    const onEvent: ServingEvents['onEvent'] = (event) => {
      toLog(event);
      if (isDefault()) events.onEvent(event);
    };
    const model: OnDemandModel = new OnDemandModel(
      {
        names: [name, ...others],
        path,
        gate,
        created: () => modifiedSec(path),
        isPinned: names.some((each) => config['pinned-models'].includes(each)),
        memoryNeed: () => memoryNeedOf(path, settings),
        readTokenizer: () => loadModel(path),
        onRefused: (reason) => onEvent({ level: 'error', event: 'model_failed', reason, isRetriable: true }),
        runnerOf: (runner) => new ObservedRunner(runner, [limit, ofModel], systemClock.now),
        serviceOf: (hooks) => {
          const launch = launchOf(settings, { ...events, log }, () => service);
          const service: ModelService = new ModelService(path, launch, {
            ...serviceOptions(config),
            gate,
            log: (event) => {
              onEvent(event);
              hooks.onEvent(event);
            },
            onServed: (info, read) => {
              hooks.onServed(info);
              events.onServed(info, read);
            },
            onCrash: (crash) => {
              ofModel.onCrash(crashKind(crash));
              events.onCrash(crash, name);
            },
          });
          return service;
        },
      },
      loader,
    );
    loader.add(model);
    return model;
  };

  const byPath = new Map<string, OnDemandModel>(named.map((each) => [each.path, served(each)]));
  const models: ModelRegistry = new ModelRegistry([...byPath.values()]);

  /**
   * Replaces the list of models. Models that are still named stay as they are; a model with other names counts as another
   * model.
   */
  const replaceModels = (next: readonly NamedModel[]): Promise<void>[] => {
    const isSame = ({ path, names }: NamedModel): boolean =>
      byPath.get(path)?.names.join('\n') === names.join('\n');
    const gone = [...byPath.values()].filter(
      (model) => !next.some((each) => each.path === model.path && isSame(each)),
    );
    for (const model of gone) {
      byPath.delete(model.path);
      metrics.remove(model.name);
    }
    for (const each of next) if (!byPath.has(each.path)) byPath.set(each.path, served(each));
    models.replace(next.flatMap(({ path }) => byPath.get(path) ?? []));
    return gone.map((model) => loader.remove(model, config['drain-timeout-sec'] * 1000));
  };

  const restartAll = async (
    restarted: readonly OnDemandModel[],
    next: Config,
    left: readonly Promise<void>[],
  ): Promise<string | undefined> => {
    const failures = await Promise.all(
      restarted.map(async (model) => {
        const failure = await model.restart(launchOf(next, events, () => model.service));
        return failure === undefined ? [] : [`${model.name}: ${failure}`];
      }),
    );
    await Promise.all(left);
    return failures.flat().join(' ') || undefined;
  };

  return {
    models,
    metrics,
    start() {
      models.default.want();
      for (const model of byPath.values()) if (model.isPinned) model.want();
    },
    reload(next, only) {
      const others = modelsOf(next);
      launchOf(next, events, () => undefined);
      settings = next;
      const left = only === undefined ? replaceModels(others) : [];
      const restarted = [...byPath.values()].filter(
        ({ names }) => only === undefined || names.includes(only),
      );
      return restartAll(restarted, next, left);
    },
    stop: (drainMs) => loader.stop(drainMs),
  };
}

function launchOf(
  settings: Config,
  { log }: Pick<ServingEvents, 'log'>,
  service: () => Pick<ModelService, 'switchBackend'> | undefined,
): RunnerLauncher {
  const moveBack = (cuda: RunnerLauncher): boolean => service()?.switchBackend(cuda) ?? false;
  return chooseLauncher(settings, { log: runnerLog(log), moveBack });
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
