import {
  type Attributes,
  type Context,
  type HrTime,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
  TraceFlags,
  type Tracer,
  trace,
} from '@opentelemetry/api';
import {
  defaultResource,
  detectResources,
  envDetector,
  resourceFromAttributes,
} from '@opentelemetry/resources';
import { BasicTracerProvider } from '@opentelemetry/sdk-trace-base';
import type { ObservedRequest, RequestObserver } from '../runner/observed-runner.ts';
import type { TokenBatch } from '../runner/runner.ts';
import { systemClock } from '../system/clock.ts';
import { version } from '../system/version.ts';
import type { Log } from './log.ts';
import { SpanOutbox } from './span-outbox.ts';
import type { TraceFields } from './trace-context.ts';

/** The traces of a process that exports them to the collector at this URL. */
export function exportedTraces(endpoint: string, workerId: string, log: Pick<Log, 'warn'>): Tracing {
  const url = `${endpoint}/v1/traces`;
  const outbox = new SpanOutbox(url, (reason) =>
    log.warn({
      event: 'traces_not_exported',
      msg: `${url} does not take traces: ${reason}. Spans are dropped until it does.`,
    }),
  );
  return new Tracing(outbox, workerId, Date.now, systemClock.now);
}

/** What a request came to. */
interface Answered {
  readonly method: string;
  /** The route's pattern; null if no route matched. */
  readonly route: string | null;
  readonly status: number;
  readonly used: Partial<Record<'tokens_in' | 'tokens_out' | 'tokens_cached', number>>;
}

/** A request to a runner, as far as its spans are not made. */
interface Traced {
  readonly parent: Context;
  /** When the first runner took it. */
  takenMs?: number;
  /** Since when no runner has it. */
  lostMs?: number | undefined;
  /** Since when the next runner computes what the one before had. */
  retakenMs?: number | undefined;
  hasOutput: boolean;
  decode?: Span;
  numTokens: number;
}

/** A wall clock that has moved this far from the other one was set, or the machine has slept. */
const clockStepMs = 100;

/**
 * Makes the spans of requests: one with what the answer came to, and below it those of its requests to runners. None of them has
 * texts, ids or paths of clients. This is loaded only if traces are exported.
 */
export class Tracing implements RequestObserver {
  readonly outbox: SpanOutbox;
  readonly #tracer: Tracer;
  readonly #traced = new WeakMap<ObservedRequest, Traced>();
  readonly #now: () => number;
  readonly #monotonicNow: () => number;
  /** The wall clock's time when the other one was 0. */
  #originMs = Number.NEGATIVE_INFINITY;

  /** now: milliseconds since 1970. monotonicNow: milliseconds that never go back, those of the requests' times. */
  constructor(outbox: SpanOutbox, workerId: string, now: () => number, monotonicNow: () => number) {
    this.outbox = outbox;
    this.#now = now;
    this.#monotonicNow = monotonicNow;
    const own = { 'service.name': 'runnel', 'service.version': version(), 'service.instance.id': workerId };
    const resource = defaultResource()
      .merge(resourceFromAttributes(own))
      .merge(detectResources({ detectors: [envDetector] }));
    this.#tracer = new BasicTracerProvider({ resource, spanProcessors: [outbox] }).getTracer('runnel');
  }

  /** Begins the span of a request. caller: the trace that it continues; undefined: it begins one. */
  begin(method: string, startMs: number, caller: TraceFields | undefined): Span {
    const { trace_id: traceId, parent_span_id: spanId, sampled } = caller ?? {};
    const traceFlags = sampled ? TraceFlags.SAMPLED : TraceFlags.NONE;
    const parent =
      traceId === undefined || spanId === undefined
        ? ROOT_CONTEXT
        : trace.setSpanContext(ROOT_CONTEXT, { traceId, spanId, traceFlags, isRemote: true });
    const startTime = this.#at(startMs);
    return this.#tracer.startSpan(method, { kind: SpanKind.SERVER, startTime }, parent);
  }

  end(span: Span, { method, route, status, used }: Answered): void {
    if (route !== null) span.updateName(`${method} ${route}`);
    span.setAttributes({
      'http.request.method': method,
      'http.route': route ?? undefined,
      'http.response.status_code': status,
      'gen_ai.usage.input_tokens': used.tokens_in,
      'gen_ai.usage.output_tokens': used.tokens_out,
      'gen_ai.usage.cache_read.input_tokens': used.tokens_cached,
    });
    if (status >= 500) fail(span, String(status));
    span.end(this.#at(this.#monotonicNow()));
  }

  onTaken(observed: ObservedRequest): void {
    const traced = this.#tracedOf(observed);
    const nowMs = this.#monotonicNow();
    if (traced === undefined) return;
    traced.takenMs ??= nowMs;
    if (traced.lostMs === undefined) return;
    this.#add('restart', traced, traced.lostMs, nowMs, { 'runnel.tokens': traced.numTokens });
    traced.lostMs = undefined;
    traced.retakenMs = nowMs;
  }

  onLost(observed: ObservedRequest): void {
    const traced = this.#tracedOf(observed);
    if (traced !== undefined) traced.lostMs = this.#monotonicNow();
  }

  onTokens(observed: ObservedRequest, { first, tokenIds }: TokenBatch): void {
    const traced = this.#tracedOf(observed);
    const nowMs = this.#monotonicNow();
    if (traced === undefined) return;
    if (!traced.hasOutput) {
      const { admittedMs } = observed.times;
      const computesMs = first ? admittedMs + first.queuedUs / 1000 : (traced.takenMs ?? nowMs);
      this.#add('queue', traced, admittedMs, Math.min(computesMs, nowMs));
      this.#add('prefill', traced, Math.min(computesMs, nowMs), nowMs, {
        'runnel.prompt_tokens': observed.request.promptIds.length,
        'runnel.cached_tokens': first?.numCachedTokens,
      });
    } else if (traced.retakenMs !== undefined) this.#add('prefill', traced, traced.retakenMs, nowMs);
    traced.hasOutput = true;
    traced.retakenMs = undefined;
    traced.numTokens += tokenIds.length;
    if (tokenIds.length > 0) traced.decode ??= this.#start('decode', traced.parent, nowMs);
  }

  onEnd(observed: ObservedRequest, outcome: string): void {
    const traced = this.#tracedOf(observed);
    if (traced === undefined) return;
    const { admittedMs, endMs = admittedMs } = observed.times;
    const { takenMs, lostMs, decode, hasOutput, numTokens } = traced;
    if (!hasOutput && takenMs !== undefined) this.#add('queue', traced, admittedMs, takenMs);
    if (lostMs !== undefined) this.#add('restart', traced, lostMs, endMs, { 'runnel.tokens': numTokens });
    const phase = takenMs === undefined ? 'queue' : 'prefill';
    const last = hasOutput ? decode : this.#start(phase, traced.parent, takenMs ?? admittedMs);
    last?.setAttributes({ 'runnel.tokens': numTokens, 'runnel.outcome': outcome });
    if (last !== undefined && !NO_FAILURE.test(outcome)) fail(last, outcome);
    last?.end(this.#at(endMs));
  }

  /** Adds a span that has ended, below the one of the tokens if there is one. */
  #add(name: string, to: Traced, startMs: number, endMs: number, attributes?: Attributes): void {
    const parent = to.decode === undefined ? to.parent : trace.setSpan(ROOT_CONTEXT, to.decode);
    this.#start(name, parent, startMs, attributes).end(this.#at(endMs));
  }

  #start(name: string, parent: Context, startMs: number, attributes: Attributes = {}): Span {
    return this.#tracer.startSpan(name, { startTime: this.#at(startMs), attributes }, parent);
  }

  /** Undefined for a request that is not traced. */
  #tracedOf(observed: ObservedRequest): Traced | undefined {
    const { trace: ref, resumeFrom } = observed.request;
    const known = this.#traced.get(observed);
    if (known !== undefined || ref === undefined) return known;
    const parent = trace.setSpanContext(ROOT_CONTEXT, { ...ref, traceFlags: TraceFlags.SAMPLED });
    const traced = { parent, hasOutput: false, numTokens: resumeFrom?.tokenIds.length ?? 0 };
    this.#traced.set(observed, traced);
    return traced;
  }

  #at(monotonicMs: number): HrTime {
    const originMs = this.#now() - this.#monotonicNow();
    if (Math.abs(originMs - this.#originMs) > clockStepMs) this.#originMs = originMs;
    const ms = this.#originMs + monotonicMs;
    return [Math.floor(ms / 1000), Math.floor((ms % 1000) * 1e6)];
  }
}

/** The outcomes of requests that did not fail. */
const NO_FAILURE = /^(eos|max_tokens|stop_sequence|embedded|parked|cancelled)$/;

function fail(span: Span, type: string): void {
  span.setAttribute('error.type', type).setStatus({ code: SpanStatusCode.ERROR });
}
