import type { Ids } from '../system/ids.ts';

/**
 * W3C Trace Context (https://www.w3.org/TR/trace-context/): the header that names the trace of a request. Nothing is
 * exported to a tracing system. Log lines name the trace, so that log and trace can be matched.
 */

/** The fields of each log line about a request with a valid header. */
export interface TraceFields {
  readonly trace_id: string;
  readonly parent_span_id: string;
  /** The span of this request here: 16 random hexadecimal digits. */
  readonly span_id: string;
  /** Whether the caller records the trace. */
  readonly sampled: boolean;
}

declare module 'hono' {
  interface ContextVariableMap {
    /** Undefined if the request has no such header, or an invalid one. */
    trace: TraceFields | undefined;
  }
}

/**
 * The header with a request's correlation id. A client sends one or is given one, to find the request in the logs of
 * every server that it passed.
 */
export const CORRELATION_HEADER = 'X-Correlation-Id';
export const TRACE_HEADER = 'traceparent';

/** Version, trace, span and flags. Later versions may have more after them. */
const FORM = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;
const ZEROS = /^0+$/;

/** Parses the header. Undefined without a header, or with an invalid one, which the specification says to ignore. */
export function traceOf(header: string | undefined, ids: Ids): TraceFields | undefined {
  if (header === undefined) return undefined;
  const [, version, traceId = '', spanId = '', flags = '', more] = FORM.exec(header) ?? [];
  if (version === undefined || version === 'ff' || ZEROS.test(traceId) || ZEROS.test(spanId))
    return undefined;
  if (version === '00' && more !== undefined) return undefined;
  return {
    trace_id: traceId,
    parent_span_id: spanId,
    span_id: spanIdOf(ids.uuid()),
    sampled: (Number.parseInt(flags, 16) & 1) === 1,
  };
}

/** The last digits of a UUID. They are not all 0: the first of them tells the variant. */
function spanIdOf(uuid: string): string {
  return uuid.replaceAll('-', '').slice(-16);
}
