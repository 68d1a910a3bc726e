import type { Context } from 'hono';
import { toApiError } from '../api/error.ts';
import { correlationIdOf } from '../api/native/correlation.ts';
import type { Log } from '../ops/log.ts';
import { GenerationError } from '../runner/runner.ts';

/** Logs what went wrong on the server's side. A client that left made its own failure, and is not logged. */
export function logFailure(log: Log, c: Context, thrown: unknown): void {
  const isCancelled = thrown instanceof GenerationError && thrown.code === 'CANCELLED';
  const { status, code, message } = toApiError(thrown);
  if (isCancelled || c.req.raw.signal.aborted || status !== 500) return;
  log.error({
    event: 'error',
    code,
    path: c.req.path,
    request_id: c.get('requestId'),
    correlation_id: correlationIdOf(c),
    // Where a failure that was foreseen was made tells nothing, and one request can have it again and again.
    ...(thrown instanceof GenerationError ? { msg: message } : { err: thrown }),
  });
}
