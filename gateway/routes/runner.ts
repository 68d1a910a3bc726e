import { Hono } from 'hono';
import { JSON_TYPE } from '../api/json.ts';
import type { AppDeps } from '../app.ts';
import { jsonOf } from '../ops/crash-reports.ts';

/** For operators: what became of runners. */
export function runnerRoutes(deps: AppDeps): Hono {
  const app = new Hono();

  // With 64-bit seeds as they are.
  app.get('/runner/crashes', (c) =>
    c.body(jsonOf({ crashes: deps.crashes() }), 200, { 'content-type': JSON_TYPE }),
  );

  return app;
}
