import { type Context, type Handler, Hono, type MiddlewareHandler } from 'hono';
import { anthropicGroup } from './api/anthropic/routes.ts';
import { FILES_PATH } from './api/batches/files.ts';
import { keepingRoutes } from './api/jobs.ts';
import { lineRoutes } from './api/line-routes.ts';
import { nativeGroup } from './api/native/routes.ts';
import { ollamaGroup } from './api/ollama/routes.ts';
import { openAiGroup } from './api/openai/routes.ts';
import { operatorGroup, probeGroup } from './api/operator/routes.ts';
import { RERANK_PATH } from './api/rerank/routes.ts';
import { Batches } from './batches/batches.ts';
import { refuseIdempotencyKey } from './calls/idempotency.ts';
import { ApiError, shown } from './errors/api-error.ts';
import { Jobs } from './jobs/jobs.ts';
import { JSON_TYPE } from './json/json-values.ts';
import type { Playground } from './playground/playground.ts';
import { pageGroup } from './playground/routes.ts';
import { type BodyLimits, ByteBudget, boundBodies, closeUnread } from './server/guard/bodies.ts';
import { KeyDigests, sharerOf } from './server/guard/caller.ts';
import { addGuard, type GuardRules, loopbackOnly } from './server/guard/guard.ts';
import { correlation, failureLog, logRequests } from './server/request-log.ts';
import { sentPath } from './server/request-path.ts';
import { assignGroup, pathOf, type RouteDeps, type RouteGroup } from './server/route-group.ts';
import { StreamTimes, streamTimes } from './server/streams/stream-times.ts';
import { toApiError } from './server/to-api-error.ts';
import { systemClock } from './system/clock.ts';

/** What the application needs from outside. Tests pass fakes. */
export interface AppDeps extends Omit<RouteDeps, 'answerBudget' | 'jobs' | 'batches'>, BodyLimits {
  /** Jobs without a journal by default. */
  readonly jobs?: Jobs;
  /** None are kept by default. */
  readonly batches?: Batches;
  /** The size of RouteDeps.answerBudget, in bytes. */
  readonly maxAnswerBytesInFlight: number;
  /** Who may send requests; loopbackOnly by default. */
  readonly guard?: GuardRules;
  /** Of the keys; with a secret of its own by default. */
  readonly keyDigests?: KeyDigests;
  /** The page at /. Undefined if there is none. */
  readonly playground?: Playground | undefined;
}

/** Makes the HTTP application without a socket: tests call `app.request()`, `serve` lets it listen. */
export function createApp(deps: AppDeps): Hono {
  const app = new Hono({ getPath: pathOfRequest });
  const { playground, jobs = new Jobs(deps), batches = noBatches(deps) } = deps;
  const groups = playground === undefined ? routeGroups : [pageGroup(playground), ...routeGroups];
  const generating = groups.flatMap((group) => group.generating);
  const times = deps.clock === undefined ? streamTimes : new StreamTimes(deps.clock);
  app.use(async (c, next) => {
    c.set('streamTimes', times);
    await next();
  });
  app.use(closeUnread);
  app.use(logRequests(deps));
  app.use(correlation(deps.ids));
  app.use(assignGroup(groups, deps.ids));
  addGuard(app, deps.guard ?? loopbackOnly, deps.keyDigests ?? new KeyDigests());
  for (const path of generating) {
    // If the queue is full, the request is refused before its body is read.
    app.post(path, async (c, next) => {
      // Of several models, only the body says which one is meant.
      deps.models.single?.runner.assertAcceptsRequests(sharerOf(c));
      await next();
    });
  }
  app.use(refuseIdempotencyKey(keepingRoutes));
  app.use(refuseEncoded);
  app.use(boundBodies(deps, [FILES_PATH]));
  deps.metrics.showJournal(
    () => jobs.stats,
    () => batches.stats,
  );
  const answerBudget = new ByteBudget(deps.maxAnswerBytesInFlight, 'answers');
  const ofRoutes: RouteDeps = { ...deps, jobs, batches, answerBudget };
  batches.serve(lineRoutes(ofRoutes, openAiGroup));
  const served = groups.map((group) => {
    if (group.routes !== undefined) app.route('/', group.routes());
    const operations = group.operations.filter((operation) => {
      const { method, handler: make } = operation;
      const handler = make?.(ofRoutes);
      if (handler !== undefined) app.on(method.toUpperCase(), pathOf(operation), handler);
      return handler !== undefined || make === undefined;
    });
    return { ...group, operations };
  });
  app.get('/openapi.json', describing(served));
  app.notFound((c) => answerError(c, nothingHere(app, c)));
  app.onError((thrown, c) => {
    failureLog(deps.log, c)(thrown);
    return answerError(c, toApiError(thrown));
  });
  return app;
}

/** The document is made when it is first asked for, and does not change while the server runs. */
function describing(groups: readonly RouteGroup[]): Handler {
  let text: string | undefined;
  return async (c) => {
    text ??= JSON.stringify((await import('./api/openapi.ts')).openApiDocument(groups));
    return c.body(text, 200, { 'content-type': JSON_TYPE });
  };
}

function noBatches({ log, now, clock = systemClock, maxBodyBytes: maxLineBytes }: AppDeps): Batches {
  const none = { maxFileBytes: 0, maxBytes: 0, maxOpenLines: 1 };
  return new Batches({ ...none, log, now, clock, maxLineBytes });
}

/** Routes that clients whose base URL lacks /v1 ask for without it. */
const UNVERSIONED = [
  ...['/chat/completions', '/completions', '/embeddings', '/models', '/responses'],
  ...['/rerank', '/reranking', '/score'],
];
/** Paths of Cohere's and of llama-server's clients for the same route. */
const SYNONYMS = new Map([
  ['/v2/rerank', RERANK_PATH],
  ['/v1/reranking', RERANK_PATH],
]);

/** The path by which guard, routes and log know a request: with /v1, and without a slash at its end. */
function pathOfRequest(request: Request, { env }: { env?: unknown } = {}): string {
  const sent = sentPath(request, env);
  // Two slashes are not the page at /.
  const path = sent.length > 2 && sent.endsWith('/') ? sent.slice(0, -1) : sent;
  const isUnversioned = UNVERSIONED.some((each) => path === each || path.startsWith(`${each}/`));
  const versioned = isUnversioned ? `/v1${path}` : path;
  return SYNONYMS.get(versioned) ?? versioned;
}

/** Refuses compressed bodies: nothing here decompresses them. */
const refuseEncoded: MiddlewareHandler = async (c, next) => {
  const encoding = c.req.header('content-encoding');
  if (encoding !== undefined && encoding.trim().toLowerCase() !== 'identity') {
    const message = `A body with Content-Encoding ${JSON.stringify(shown(encoding))} is not supported; send the body unencoded, without that header.`;
    throw new ApiError({ status: 415, code: 'unsupported_media_type', message });
  }
  await next();
};

const METHODS = ['GET', 'POST', 'DELETE'];

/** 405 if another method has a route at this path, else 404. */
function nothingHere(app: Hono, c: Context): ApiError {
  const { method, path } = c.req;
  const allowed = METHODS.filter((each) =>
    app.router.match(each, path)[0].some(([[, route]]) => route.method === each),
  );
  if (allowed.length > 0) {
    if (allowed.includes('GET')) allowed.push('HEAD');
    c.header('allow', allowed.join(', '));
    const message = `${path} takes ${allowed.join(' and ')}, not ${method}.`;
    return new ApiError({ status: 405, code: 'method_not_allowed', message });
  }
  const hint = c.get('group').hint;
  return new ApiError({
    status: 404,
    code: 'not_found',
    message: `There is no ${method} ${path} here.${hint === undefined ? '' : ` ${hint}`}`,
  });
}

function answerError(c: Context, error: ApiError): Response {
  if (error.retryAfterSec !== undefined) {
    c.header('retry-after', String(Math.max(1, Math.ceil(error.retryAfterSec))));
    c.header('retry-after-ms', String(Math.round(error.retryAfterSec * 1000)));
  }
  const { body, status = error.status } = c.get('group').errorAnswer(c, error);
  return c.json(body, status);
}

/** All groups of routes. A path belongs to the first group that has it. */
export const routeGroups: readonly RouteGroup[] = [
  probeGroup,
  operatorGroup,
  anthropicGroup,
  openAiGroup,
  ollamaGroup,
  nativeGroup,
];
