import { Hono } from 'hono';
import type { AppDeps } from '../app.ts';
import type { RunnerState } from '../runner/runner.ts';
import { notReady } from './prompt.ts';

const HEALTH: Record<RunnerState, 'healthy' | 'starting' | 'recovering' | 'degraded' | 'unhealthy'> = {
  starting: 'starting',
  ready: 'healthy',
  recovering: 'recovering',
  failed: 'unhealthy',
  stopping: 'degraded',
};

/** /health answers 200 as long as the gateway lives and says the rest in the body; /ready tells a load balancer. */
export function healthRoutes(deps: AppDeps): Hono {
  const app = new Hono();
  const startedMs = deps.now();

  app.get('/health', (c) => {
    const model = deps.model();
    const runner = deps.runner.status();
    return c.json({
      status: HEALTH[runner.state],
      model_loaded: runner.state === 'ready',
      vram_bytes: 0,
      memory_type: 'cpu',
      memory_bytes: (runner.info?.weightsBytes ?? 0) + (runner.info?.kvCacheBytes ?? 0),
      model: model?.id ?? null,
      context_length: runner.info?.maxModelLen ?? null,
      uptime_seconds: Math.floor((deps.now() - startedMs) / 1000),
      runner: {
        state: runner.state,
        reason: runner.reason ?? null,
        pid: runner.pid ?? null,
        restarts: runner.restarts,
        open_requests: runner.openRequests,
        load_progress: runner.loadProgress ?? null,
        kind: runner.info?.kind ?? null,
        build: runner.info?.build ?? null,
        device: runner.info?.device ?? null,
        numerics_id: runner.info?.numericsId ?? null,
      },
    });
  });

  app.get('/ready', (c) => {
    if (deps.runner.status().state !== 'ready') throw notReady(deps);
    return c.json({ status: 'ready' });
  });

  return app;
}
