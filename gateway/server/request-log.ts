import type { ServerResponse } from 'node:http';
import type { Context, MiddlewareHandler } from 'hono';
import { matchedRoutes } from 'hono/route';
import { GenerationError } from '../runner/runner.ts';
import type { HttpMetrics } from '../telemetry/http-metrics.ts';
import type { Log } from '../telemetry/log.ts';
import { TRACE_HEADER, traceOf } from '../telemetry/trace-context.ts';
import { correlationIdOf } from './correlation.ts';
import { toApiError } from './to-api-error.ts';

/** Asked every few seconds by programs. */
const PROBED: ReadonlySet<string | null> = new Set(['/health', '/ready', '/metrics']);

/**
 * Counts each request, and logs one line of it, when its answer has been given, or its client has left: never what was asked or answered, nor a
 * path as the client wrote it. Jobs of POST /execute have lines of their own, from where they begin.
 */
export function logRequests(log: Log, metrics: Pick<HttpMetrics, 'answered'>): MiddlewareHandler {
  return async (c, next) => {
    const startMs = performance.now();
    const trace = traceOf(c.req.header(TRACE_HEADER));
    c.set('trace', trace);
    const outgoing = (c.env as { outgoing?: ServerResponse } | undefined)?.outgoing;
    let isClosed = false;
    let onClosed = (): void => {
      isClosed = true;
    };
    outgoing?.once('close', () => onClosed());
    await next();
    const { status } = c.res;
    const route = routeOf(c);
    // Not the context: an answer may last, and its request's body shall not.
    const names = {
      method: c.req.method,
      route,
      status,
      request_id: c.get('requestId') as string | undefined,
      correlation_id: correlationIdOf(c),
      ...trace,
    };
    const hasOwnLines = route === '/execute' && status === 200;
    const write = (): void => {
      metrics.answered(route, status);
      if (hasOwnLines) return;
      log[PROBED.has(route) ? 'debug' : 'info']({
        event: 'request',
        ...names,
        duration_ms: Math.round(performance.now() - startMs),
        ...(outgoing?.writableFinished === false ? { client_gone: true } : {}),
      });
    };
    if (outgoing === undefined || isClosed) write();
    else onClosed = write;
  };
}

/** Null where there is none. */
function routeOf(c: Context): string | null {
  const own = matchedRoutes(c).filter(({ method }) => method !== 'ALL');
  return own.at(-1)?.path ?? null;
}

/**
 * Logs what went wrong on the server's side. A client that left made its own failure, and is not logged. What is returned
 * keeps nothing of the request but its names: an answer may last, and its request's body shall not.
 */
export function failureLog(log: Log, c: Context): (thrown: unknown) => void {
  const { signal } = c.req.raw;
  const names = {
    path: c.req.path,
    request_id: c.get('requestId') as string | undefined,
    correlation_id: correlationIdOf(c),
    ...c.get('trace'),
  };
  return (thrown) => {
    const isCancelled = thrown instanceof GenerationError && thrown.code === 'CANCELLED';
    const { status, code, message } = toApiError(thrown);
    if (isCancelled || signal.aborted || status !== 500) return;
    // Where a failure that was foreseen was made tells nothing, and one request can have it again and again.
    const what = thrown instanceof GenerationError ? { msg: message } : { err: thrown };
    log.error({ event: 'error', code, ...names, ...what });
  };
}

export function logFailure(log: Log, c: Context, thrown: unknown): void {
  failureLog(log, c)(thrown);
}
