import { type Context, Hono } from 'hono';
import { bodyLimit } from 'hono/body-limit';
import { ApiError, toApiError } from './api/error.ts';
import { correlation, correlationIdOf } from './api/native/correlation.ts';
import { nativeErrorBody } from './api/native/errors.ts';
import { openAiErrorBody } from './api/openai/errors.ts';
import type { Model } from './model/model.ts';
import type { Log } from './ops/log.ts';
import type { Metrics } from './ops/metrics.ts';
import { chatRoutes } from './routes/chat-completions.ts';
import { executeRoutes } from './routes/execute.ts';
import { healthRoutes } from './routes/health.ts';
import { metricsRoutes } from './routes/metrics.ts';
import { modelRoutes } from './routes/models.ts';
import { tokenizeRoutes } from './routes/tokenize.ts';
import type { Runner } from './runner/runner.ts';

/** What the routes need from the outside; tests pass fakes. */
export interface AppDeps {
  /** The model being served; undefined until it is loaded, and while it cannot be. */
  readonly model: () => Model | undefined;
  readonly runner: Runner;
  readonly log: Log;
  readonly metrics: Metrics;
  /** Milliseconds since 1970. */
  readonly now: () => number;
  /** Bytes a request body may have. */
  readonly maxBodyBytes: number;
}

/** The HTTP application, without a socket: `app.request()` answers in tests, `serve` listens in production. */
export function createApp(deps: AppDeps): Hono {
  const app = new Hono();
  app.use(correlation);
  app.use(
    bodyLimit({
      maxSize: deps.maxBodyBytes,
      onError: () => {
        throw new ApiError({
          status: 413,
          code: 'body_too_large',
          message: `The body has more than ${deps.maxBodyBytes} bytes, which is the limit.`,
        });
      },
    }),
  );
  for (const routes of [
    healthRoutes,
    metricsRoutes,
    executeRoutes,
    chatRoutes,
    modelRoutes,
    tokenizeRoutes,
  ]) {
    app.route('/', routes(deps));
  }
  app.notFound((c) => {
    const message = `There is no ${c.req.method} ${c.req.path} here.`;
    return answerError(c, new ApiError({ status: 404, code: 'not_found', message }));
  });
  app.onError((thrown, c) => {
    const error = toApiError(thrown);
    if (error.status === 500) {
      const correlation_id = correlationIdOf(c);
      deps.log.error({ event: 'error', code: error.code, path: c.req.path, correlation_id, err: thrown });
    }
    return answerError(c, error);
  });
  return app;
}

function answerError(c: Context, error: ApiError): Response {
  if (error.retryAfterSec !== undefined) {
    c.header('retry-after', String(Math.max(1, Math.ceil(error.retryAfterSec))));
    c.header('retry-after-ms', String(Math.round(error.retryAfterSec * 1000)));
  }
  const body = c.req.path.startsWith('/v1/') ? openAiErrorBody(error) : nativeErrorBody(error);
  return c.json(body, error.status);
}
