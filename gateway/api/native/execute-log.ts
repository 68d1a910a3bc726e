import { GenerationError } from '../../runner/runner.ts';
import type { Log } from '../../telemetry/log.ts';
import type { TraceFields } from '../../telemetry/trace-context.ts';
import type { NativeEvent } from './events.ts';

/** The log of one job: how it began, how it ended, how long it took; never what was asked or answered. */
export interface ExecuteLog {
  start(facts: { promptTokens: number; maxTokens: number; unusual: readonly string[] }): void;
  /** The terminal event, if the stream got as far, and of an error what caused it. */
  last(event: NativeEvent, cause?: unknown): void;
  /** outcome: of a job whose events nobody need have read. */
  end(outcome?: { readonly outcome: string; readonly tokens_out: number }): void;
}

/** A job id is the client's choice and may be long; a line of the log shall not. */
const MAX_LOGGED_CHARACTERS = 128;

/** names: by which the request is found in other logs. now: milliseconds that only grow. */
export function executeLog(
  parent: Log,
  jobId: string,
  names: { readonly correlation_id: string | undefined } & Partial<TraceFields>,
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
      // Of an error that was foreseen, the message tells all; of any other, where it came from.
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
