import type { SpanContext } from '@opentelemetry/api';
import type { Ids } from '../system/ids.ts';

/**
 * The fields of each log line about a request that belongs to a trace (https://www.w3.org/TR/trace-context/), so that log and trace
 * can be matched.
 */
export interface TraceFields {
  readonly trace_id: string;
  /** The caller's span; absent if the trace begins here. */
  readonly parent_span_id?: string;
  /** The span of this request here: 16 random hexadecimal digits. */
  readonly span_id: string;
  /** Whether the trace is recorded. */
  readonly sampled: boolean;
}

export const TRACE_HEADER = 'traceparent';

/** Version, trace, span and flags. Later versions may have more after them. */
const TRACE = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;
const ZEROS = /^0+$/;
const SAMPLED = 1;

/** Parses the header. Undefined without a header, or with an invalid one, which the specification says to ignore. */
export function traceOf(header: string | undefined, ids: Ids): TraceFields | undefined {
  if (header === undefined) return undefined;
  const [, version, traceId = '', spanId = '', flags = '', more] = TRACE.exec(header) ?? [];
  if (version === undefined || version === 'ff' || ZEROS.test(traceId) || ZEROS.test(spanId))
    return undefined;
  if (version === '00' && more !== undefined) return undefined;
  return {
    trace_id: traceId,
    parent_span_id: spanId,
    span_id: spanIdOf(ids.uuid()),
    sampled: (Number.parseInt(flags, 16) & SAMPLED) !== 0,
  };
}

/** The fields of a request whose span is exported. caller: what its header says. */
export function fieldsOf(span: SpanContext, caller: TraceFields | undefined): TraceFields {
  const { traceId, spanId, traceFlags } = span;
  return { ...caller, trace_id: traceId, span_id: spanId, sampled: (traceFlags & SAMPLED) !== 0 };
}

/** The last digits of a UUID. They are not all 0: the first of them tells the variant. */
function spanIdOf(uuid: string): string {
  return uuid.replaceAll('-', '').slice(-16);
}
