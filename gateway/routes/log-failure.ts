import type { Context } from 'hono';
import { toApiError } from '../api/error.ts';
import { correlationIdOf } from '../api/native/correlation.ts';
import type { Log } from '../ops/log.ts';
import { GenerationError } from '../runner/runner.ts';

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
