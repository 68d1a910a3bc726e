import { randomBytes } from 'node:crypto';

/**
 * W3C Trace Context (https://www.w3.org/TR/trace-context/): the header that says of which trace a request is a part. Nothing is
 * exported to a tracing system; lines of the log name the trace, so that whoever has both finds one by the other.
 */

/** What each line of the log about a request with a usable header has. */
export interface TraceFields {
  readonly trace_id: string;
  /** The caller's span. */
  readonly parent_span_id: string;
  /** Of this request here: 16 hexadecimal digits, drawn. */
  readonly span_id: string;
  /** Whether the caller keeps what it records of the trace. */
  readonly sampled: boolean;
}

declare module 'hono' {
  interface ContextVariableMap {
    /** Undefined: the request has no such header, or one that says nothing. */
    trace: TraceFields | undefined;
  }
}

export const TRACE_HEADER = 'traceparent';

/** Version, trace, span, flags; later versions may have more behind them. */
const FORM = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;
const ZEROS = /^0+$/;

/** Undefined for a header that is not there, or is not as the specification has it, which is to be ignored then. */
export function traceOf(header: string | undefined): TraceFields | undefined {
  if (header === undefined) return undefined;
  const [, version, traceId = '', spanId = '', flags = '', more] = FORM.exec(header) ?? [];
  if (version === undefined || version === 'ff' || ZEROS.test(traceId) || ZEROS.test(spanId))
    return undefined;
  if (version === '00' && more !== undefined) return undefined;
  return {
    trace_id: traceId,
    parent_span_id: spanId,
    span_id: drawSpanId(),
    sampled: (Number.parseInt(flags, 16) & 1) === 1,
  };
}

function drawSpanId(): string {
  for (;;) {
    const id = randomBytes(8).toString('hex');
    if (!ZEROS.test(id)) return id;
  }
}
