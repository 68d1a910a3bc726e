import type { Config } from '../config/config.ts';
import { AdmissionGate } from '../models/admission-gate.ts';
import { modelIdOf } from '../models/model.ts';
import { ModelRegistry } from '../models/model-registry.ts';
import { ModelService } from '../models/model-service.ts';
import { soleModel } from '../models/sole-model.ts';
import type { RunnerLauncher } from '../runner/backends/runner-launcher.ts';
import { ObservedRunner } from '../runner/observed-runner.ts';
import { crashKind } from '../runner/supervision/crash.ts';
import { TimeLimit } from '../runner/time-limit.ts';
import { systemClock } from '../system/clock.ts';
import { Metrics } from '../telemetry/metrics.ts';
import { runnerLog } from '../telemetry/runner-log.ts';
import { chooseLauncher } from './choose-launcher.ts';
import { theModelOf } from './model-list.ts';
import { gateOptions, serviceOptions } from './server-settings.ts';
import type { Serving, ServingEvents } from './serving.ts';

/** Serves one model, which is loaded at the start and stays. A reload with another model in the settings replaces it. */
export function serveOne(config: Config, events: ServingEvents): Serving {
  const toLog = runnerLog(events.log);
  const { path, names } = theModelOf(config);
  const gate = new AdmissionGate(gateOptions(config, ({ code }) => ofModel.onRefused(code.toLowerCase())));
  const launchOf = (settings: Config): RunnerLauncher =>
    chooseLauncher(settings, { log: toLog, moveBack: (cuda) => service.switchBackend(cuda) });
  const service: ModelService = new ModelService(path, launchOf(config), {
    ...serviceOptions(config),
    gate,
    log: (event) => {
      toLog(event);
      events.onEvent(event);
    },
    onServed: (info, model) => {
      metrics.replace(label, labelOf(model.id));
      label = labelOf(model.id);
      events.onServed(info, model);
    },
    onCrash: (crash) => {
      ofModel.onCrash(crashKind(crash));
      events.onCrash(crash);
    },
  });
  const labelOf = (id: string): string => names[0] ?? id;
  let label = labelOf(modelIdOf(path));
  const metrics = new Metrics(systemClock.now);
  const ofModel = metrics.add(label, () => service.status());
  const limit = new TimeLimit(config['inference-timeout-sec'] * 1000, Date.now);
  const runner = new ObservedRunner(service, [limit, ofModel], systemClock.now);
  return {
    models: new ModelRegistry([soleModel({ model: () => service.model, names, runner, gate })]),
    metrics,
    start: () => service.start(),
    reload: (next) => service.change(theModelOf(next).path, launchOf(next)),
    stop: (drainMs) => service.stop(drainMs),
  };
}
