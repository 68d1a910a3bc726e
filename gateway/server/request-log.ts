import type { ServerResponse } from 'node:http';
import type { Span } from '@opentelemetry/api';
import type { Context, MiddlewareHandler } from 'hono';
import { matchedRoutes } from 'hono/route';
import { GenerationError } from '../runner/runner.ts';
import type { Ids } from '../system/ids.ts';
import type { Log } from '../telemetry/log.ts';
import { fieldsOf, TRACE_HEADER, type TraceFields, traceOf } from '../telemetry/trace-context.ts';
import { callerField } from './guard/caller.ts';
import type { RouteDeps } from './route-group.ts';
import { toApiError } from './to-api-error.ts';

declare module 'hono' {
  interface ContextVariableMap {
    used: UsedTokens;
    correlationId: string;
    /** Undefined if the request belongs to no trace. */
    trace: TraceFields | undefined;
    /** Undefined if traces are not exported. */
    span: Span | undefined;
  }
}

/** What a request has taken, as far as it is known. Its line in the log has these members. */
export interface UsedTokens {
  tokens_in?: number;
  tokens_out?: number;
  /** Prompt tokens that were found in the KV cache; unknown until an answer has ended. */
  tokens_cached?: number;
}

/** Routes that monitoring asks every few seconds. They are logged at level debug. */
const PROBED: ReadonlySet<string | null> = new Set([
  '/health',
  '/ready',
  '/ping',
  '/metrics',
  '/metrics/load',
]);

/**
 * Counts each request and logs one line for it, when the answer has been sent or the client has left. The line never has
 * content of request or answer, nor the path as the client wrote it. Jobs of POST /execute log their own lines instead,
 * from where they begin.
 */
export function logRequests({
  log,
  ids,
  metrics,
  monotonicNow,
  tracing,
}: Pick<RouteDeps, 'log' | 'ids' | 'metrics' | 'monotonicNow' | 'tracing'>): MiddlewareHandler {
  return async (c, next) => {
    const startMs = monotonicNow();
    const caller = traceOf(c.req.header(TRACE_HEADER), ids);
    const span = tracing?.begin(c.req.method, startMs, caller);
    const trace = span === undefined ? caller : fieldsOf(span.spanContext(), caller);
    c.set('trace', trace);
    c.set('span', span);
    const used: UsedTokens = {};
    c.set('used', used);
    const outgoing = (c.env as { outgoing?: ServerResponse } | undefined)?.outgoing;
    let isClosed = false;
    let onClosed = (): void => {
      isClosed = true;
    };
    outgoing?.once('close', () => onClosed());
    await next();
    const { status } = c.res;
    const route = routeOf(c);
    // write() keeps these values and not the context: an answer may last long, and the request's body must not stay in
    // memory.
    const names = {
      method: c.req.method,
      route,
      status,
      request_id: c.get('requestId') as string | undefined,
      correlation_id: c.get('correlationId'),
      ...callerField(c),
      ...trace,
    };
    const hasOwnLines = route === '/execute' && status === 200;
    const write = (): void => {
      metrics.answered(route, status);
      // A span that does not end is not exported.
      if (span !== undefined && !PROBED.has(route)) tracing?.end(span, { ...names, used });
      if (hasOwnLines) return;
      log[PROBED.has(route) ? 'debug' : 'info']({
        event: 'request',
        ...names,
        ...used,
        duration_ms: Math.round(monotonicNow() - startMs),
        ...(outgoing?.writableFinished === false ? { client_gone: true } : {}),
      });
    };
    if (outgoing === undefined || isClosed) write();
    else onClosed = write;
  };
}

/** The route's pattern; null if no route matched. */
function routeOf(c: Context): string | null {
  const own = matchedRoutes(c).filter(({ method }) => method !== 'ALL');
  return own.at(-1)?.path ?? null;
}

/**
 * Returns a function that logs failures of the server (status 500). Failures caused by a client that left are not logged.
 * The function keeps nothing of the request but its names: an answer may last long, and the body must not stay in memory.
 */
export function failureLog(log: Log, c: Context): (thrown: unknown) => void {
  const { signal } = c.req.raw;
  const names = {
    path: c.req.path,
    request_id: c.get('requestId') as string | undefined,
    correlation_id: c.get('correlationId'),
    ...c.get('trace'),
  };
  return (thrown) => {
    const isCancelled = thrown instanceof GenerationError && thrown.code === 'CANCELLED';
    const { status, code, message } = toApiError(thrown);
    if (isCancelled || signal.aborted || status !== 500) return;
    // The stack of an expected failure tells nothing, and one request can cause such failures again and again.
    const what = thrown instanceof GenerationError ? { msg: message } : { err: thrown };
    log.error({ event: 'error', code, ...names, ...what });
  };
}

/**
 * The header with a request's correlation id. A client sends one or is given one, to find the request in the logs of
 * every server that it passed.
 */
export const CORRELATION_HEADER = 'X-Correlation-Id';
const CORRELATION_ID = /^[A-Za-z0-9-]{1,64}$/;

/**
 * Takes the request's correlation id or draws one, and echoes it in every answer. An id of another form, such as other
 * servers use, is replaced: no request is refused for the sake of a log, and no unexpected characters get into a log.
 */
export function correlation(ids: Ids): MiddlewareHandler {
  return async (c, next) => {
    const given = c.req.header(CORRELATION_HEADER);
    const id = given !== undefined && CORRELATION_ID.test(given) ? given : ids.uuid();
    c.set('correlationId', id);
    await next();
    c.header(CORRELATION_HEADER, id);
  };
}

const IGNORED_HEADER = 'x-runnel-ignored';
/** The most names that the header lists; the others are counted. */
const MAX_IGNORED_NAMES = 32;

/** Tells the client, and the log at level debug, which fields were ignored, besides those that it was told before. */
export function tellIgnored(c: Context, log: Log, ignored: readonly string[]): void {
  if (ignored.length === 0) return;
  const names = ignored.slice(0, MAX_IGNORED_NAMES);
  if (ignored.length > MAX_IGNORED_NAMES) names.push(`${ignored.length - MAX_IGNORED_NAMES} more`);
  c.header(IGNORED_HEADER, names.join(', '), { append: true });
  log.debug({ event: 'fields_ignored', fields: names, path: c.req.path, request_id: c.get('requestId') });
}
