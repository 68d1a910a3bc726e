import { Hono } from 'hono';
import { ApiError } from '../errors/api-error.ts';

/** A route of an API that is not here, and what to do instead. */
export type MissingRoute = readonly [method: 'GET' | 'POST' | 'DELETE', path: string, sentence: string];

/** Each answers 501 with its sentence. */
export function missingRoutes(missing: readonly MissingRoute[]): Hono {
  const app = new Hono();
  for (const [method, path, message] of missing) {
    app.on(method, path, () => {
      throw new ApiError({ status: 501, code: 'not_supported', message });
    });
  }
  return app;
}
