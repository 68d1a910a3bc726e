import { type Context, Hono, type MiddlewareHandler } from 'hono';
import { bodyLimit } from 'hono/body-limit';
import { ApiError, toApiError } from './api/error.ts';
import { correlation } from './api/native/correlation.ts';
import { DEADLINE_HEADER, parseDeadline } from './api/native/deadline.ts';
import { nativeErrorBody } from './api/native/errors.ts';
import { openAiErrorBody, shouldRetry } from './api/openai/errors.ts';
import { requestId } from './api/openai/request-id.ts';
import { type BodyLimits, boundBodiesInFlight } from './guard/bodies-in-flight.ts';
import { addGuard, type GuardRules, loopbackOnly } from './guard/guard.ts';
import type { Model } from './model/model.ts';
import type { CrashReport } from './ops/crash-reports.ts';
import type { Log } from './ops/log.ts';
import type { Metrics } from './ops/metrics.ts';
import { chatRoutes } from './routes/chat-completions.ts';
import { completionRoutes } from './routes/completions.ts';
import { executeRoutes } from './routes/execute.ts';
import { healthRoutes } from './routes/health.ts';
import { logFailure } from './routes/log-failure.ts';
import { metricsRoutes } from './routes/metrics.ts';
import { modelRoutes } from './routes/models.ts';
import { runnerRoutes } from './routes/runner.ts';
import { tokenizeRoutes } from './routes/tokenize.ts';
import type { Runner } from './runner/runner.ts';
import type { Gate } from './serving/gate.ts';

/** What the routes need from the outside; tests pass fakes. */
export interface AppDeps extends BodyLimits {
  /** The model being served; undefined until it is loaded, and while it cannot be. */
  readonly model: () => Model | undefined;
  /** What clients call it; its file's name when there are none. */
  readonly modelNames?: readonly string[];
  readonly runner: Runner;
  /** Where requests wait while another model takes over. */
  readonly gate: Gate;
  readonly log: Log;
  readonly metrics: Metrics;
  /** Of runners, the newest first. */
  readonly crashes: () => readonly CrashReport[];
  /**
   * Reads the settings again and puts a new runner in place of the old one, of another model if they name one. Resolves when
   * it is ready, or with the reason why what was there before serves on. Throws UsageError or ModelFileError for settings
   * that cannot be used.
   */
  readonly restartRunner: () => Promise<string | undefined>;
  /** Milliseconds since 1970. */
  readonly now: () => number;
  /** Who may ask; loopbackOnly when left out. */
  readonly guard?: GuardRules;
}

/** Paths whose requests go to the runner. */
const GENERATING = ['/execute', '/v1/chat/completions', '/v1/completions'];

/** The HTTP application, without a socket: `app.request()` answers in tests, `serve` listens in production. */
export function createApp(deps: AppDeps): Hono {
  const app = new Hono();
  app.use(correlation);
  app.use('/v1/*', requestId);
  addGuard(app, deps.guard ?? loopbackOnly);
  for (const path of GENERATING) {
    // A full queue reads no bodies.
    app.post(path, async (_, next) => {
      deps.runner.requireAnyRoom();
      await next();
    });
  }
  app.use(boundBodiesInFlight(deps));
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
  for (const path of GENERATING) app.post(path, throughGate(deps.gate));
  const families = [
    healthRoutes,
    metricsRoutes,
    executeRoutes,
    chatRoutes,
    completionRoutes,
    modelRoutes,
    tokenizeRoutes,
    runnerRoutes,
  ];
  for (const routes of families) app.route('/', routes(deps));
  app.notFound((c) => {
    const message = `There is no ${c.req.method} ${c.req.path} here.`;
    return answerError(c, new ApiError({ status: 404, code: 'not_found', message }));
  });
  app.onError((thrown, c) => {
    logFailure(deps.log, c, thrown);
    return answerError(c, toApiError(thrown));
  });
  return app;
}

/** A request is inside until it is with the runner, or answered. */
function throughGate(gate: Gate): MiddlewareHandler {
  return async (c, next) => {
    // One whose body is still under way would be taken for a client that never sends it.
    if (gate.isClosed) await c.req.arrayBuffer();
    const deadline = c.req.path === '/execute' ? c.req.header(DEADLINE_HEADER) : undefined;
    const leave = await gate.enter({ deadlineMs: parseDeadline(deadline), signal: c.req.raw.signal });
    try {
      await next();
    } finally {
      leave();
    }
  };
}

function answerError(c: Context, error: ApiError): Response {
  if (error.retryAfterSec !== undefined) {
    c.header('retry-after', String(Math.max(1, Math.ceil(error.retryAfterSec))));
    c.header('retry-after-ms', String(Math.round(error.retryAfterSec * 1000)));
  }
  if (!c.req.path.startsWith('/v1/')) return c.json(nativeErrorBody(error), error.status);
  c.header('x-should-retry', String(shouldRetry(error)));
  return c.json(openAiErrorBody(error), error.status);
}
