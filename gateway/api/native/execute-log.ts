import type { Context } from 'hono';
import type { CallLog } from '../../calls/call.ts';
import { GenerationError } from '../../runner/runner.ts';
import { callerField } from '../../server/guard/caller.ts';
import type { RouteDeps } from '../../server/route-group.ts';
import { toApiError } from '../../server/to-api-error.ts';
import { errorData } from './events.ts';
import { type ExecuteRequest, unusualSampling } from './execute-request.ts';

/** The client chooses the job id and may choose a long one; log lines must stay short. */
const MAX_LOGGED_CHARACTERS = 128;

/** The log of one job: how it began, how it ended and how long it took. */
export function executeLog(c: Context, deps: RouteDeps, request: ExecuteRequest): CallLog {
  const log = deps.log.child({
    job_id: request.job_id.slice(0, MAX_LOGGED_CHARACTERS),
    correlation_id: c.get('correlationId'),
    ...callerField(c),
    ...c.get('trace'),
  });
  // Not the context, which has the body: a job may last long.
  const used = c.get('used');
  let startedMs = deps.monotonicNow();
  let outcome: object = { outcome: 'client_gone' };
  return {
    begun({ promptIds, maxTokens }) {
      startedMs = deps.monotonicNow();
      log.info({ event: 'execute_start', prompt_tokens: promptIds.length, max_tokens: maxTokens });
      for (const msg of unusualSampling(request)) log.warn({ event: 'unusual_sampling', msg });
    },
    ended({ reason, numTokens }) {
      outcome = { outcome: reason, tokens_out: numTokens };
    },
    failed(thrown) {
      const { code, message } = errorData(toApiError(thrown));
      outcome = { outcome: code === 'CANCELLED' ? 'cancelled' : 'error', code };
      if (code === 'CANCELLED') return;
      // The message says all of an expected error. An unexpected one is logged with its stack.
      const details = thrown instanceof GenerationError ? {} : { err: thrown };
      log.error({ event: 'error', code, msg: message, ...details });
    },
    over() {
      const duration_ms = Math.round(deps.monotonicNow() - startedMs);
      log.info({ event: 'execute_end', duration_ms, ...used, ...outcome });
    },
  };
}
