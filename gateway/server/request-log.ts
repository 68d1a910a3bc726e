import type { ServerResponse } from 'node:http';
import type { Context, MiddlewareHandler } from 'hono';
import { matchedRoutes } from 'hono/route';
import { GenerationError } from '../runner/runner.ts';
import type { Log } from '../telemetry/log.ts';
import { TRACE_HEADER, traceOf } from '../telemetry/trace-context.ts';
import { correlationIdOf } from './correlation.ts';
import { callerField } from './guard/caller.ts';
import type { RouteDeps } from './route-group.ts';
import { toApiError } from './to-api-error.ts';

declare module 'hono' {
  interface ContextVariableMap {
    used: UsedTokens;
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
const PROBED: ReadonlySet<string | null> = new Set(['/health', '/ready', '/metrics']);

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
}: Pick<RouteDeps, 'log' | 'ids' | 'metrics' | 'monotonicNow'>): MiddlewareHandler {
  return async (c, next) => {
    const startMs = monotonicNow();
    const trace = traceOf(c.req.header(TRACE_HEADER), ids);
    c.set('trace', trace);
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
      correlation_id: correlationIdOf(c),
      ...callerField(c),
      ...trace,
    };
    const hasOwnLines = route === '/execute' && status === 200;
    const write = (): void => {
      metrics.answered(route, status);
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
    correlation_id: correlationIdOf(c),
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

export function logFailure(log: Log, c: Context, thrown: unknown): void {
  failureLog(log, c)(thrown);
}
