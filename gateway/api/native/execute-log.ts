import { GenerationError } from '../../runner/runner.ts';
import type { Log } from '../../telemetry/log.ts';
import type { TraceFields } from '../../telemetry/trace-context.ts';
import type { NativeEvent } from './events.ts';

/** The log of one job: how it began, how it ended and how long it took. It never has content of prompt or answer. */
export interface ExecuteLog {
  start(facts: { promptTokens: number; maxTokens: number; unusual: readonly string[] }): void;
  /** Takes the terminal event, if the stream got that far, and the cause of an error. */
  last(event: NativeEvent, cause?: unknown): void;
  /** outcome: for a durable job, whose stream may have ended before the job. */
  end(outcome?: { readonly outcome: string; readonly tokens_out: number }): void;
}

/** The client chooses the job id and may choose a long one; log lines must stay short. */
const MAX_LOGGED_CHARACTERS = 128;

/** names: of the request's caller, and ids by which it is found in other logs. now: milliseconds that never go back. */
export function executeLog(
  parent: Log,
  jobId: string,
  names: { readonly correlation_id: string | undefined; readonly caller?: string } & Partial<TraceFields>,
  now: () => number,
): ExecuteLog {
  const log = parent.child({ job_id: jobId.slice(0, MAX_LOGGED_CHARACTERS), ...names });
  const startedMs = now();
  let last: NativeEvent | undefined;
  return {
    start({ promptTokens, maxTokens, unusual }) {
      log.info({ event: 'execute_start', prompt_tokens: promptTokens, max_tokens: maxTokens });
      for (const msg of unusual) log.warn({ event: 'unusual_sampling', msg });
    },
    last(event, cause) {
      last = event;
      if (event.event !== 'error' || event.data.code === 'CANCELLED') return;
      // The message says all of an expected error. An unexpected one is logged with its stack.
      const details = cause instanceof GenerationError ? {} : { err: cause };
      log.error({ event: 'error', code: event.data.code, msg: event.data.message, ...details });
    },
    end(outcome) {
      const duration_ms = Math.round(now() - startedMs);
      log.info({
        event: 'execute_end',
        duration_ms,
        ...((last === undefined ? outcome : undefined) ?? outcomeOf(last)),
      });
    },
  };
}

function outcomeOf(last: NativeEvent | undefined): object {
  if (last?.event === 'end') return { outcome: last.data.stop_reason, tokens_out: last.data.tokens_out };
  if (last?.event === 'error') {
    const { code } = last.data;
    return { outcome: code === 'CANCELLED' ? 'cancelled' : 'error', code };
  }
  return { outcome: 'client_gone' };
}
