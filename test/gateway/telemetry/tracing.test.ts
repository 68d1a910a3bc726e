import { unlinkSync } from 'node:fs';
import * as assert from 'uvu/assert';
import type { RequestObserver } from '../../../gateway/runner/observed-runner.ts';
import { ObservedRunner } from '../../../gateway/runner/observed-runner.ts';
import { GenerationError, type Runner } from '../../../gateway/runner/runner.ts';
import { createLog } from '../../../gateway/telemetry/log.ts';
import { SpanOutbox } from '../../../gateway/telemetry/span-outbox.ts';
import { Tracing } from '../../../gateway/telemetry/tracing.ts';
import { testApp } from '../../fixtures/app.ts';
import { EOS_ID } from '../../fixtures/byte-model.ts';
import { closingSuite } from '../../fixtures/closing-suite.ts';
import { type CollectedSpan, OtlpCollector } from '../../fixtures/otlp-collector.ts';
import { ScriptedRunner } from '../../fixtures/scripted-runner.ts';
import { collectExact, patienceMs, ready, requestOf, temporaryDirectory } from '../../fixtures/supervised.ts';
import { VirtualClock } from '../../fixtures/virtual-clock.ts';
import { until } from '../../fixtures/within.ts';

const test = closingSuite('tracing');

const TRACE_ID = '0af7651916cd43dd8448eb211c80319c';
const CALLER = 'b7ad6b7169203331';
const SAMPLED = { traceparent: `00-${TRACE_ID}-${CALLER}-01` };
const EPOCH_MS = 1_800_000_000_000;

interface Setup {
  readonly collector: OtlpCollector;
  readonly clock: VirtualClock;
  readonly tracing: Tracing;
  /** Resolves when the collector has all spans that have ended. */
  readonly flushed: () => Promise<void>;
}

async function setUp(): Promise<Setup> {
  const collector = await OtlpCollector.open();
  const outbox = new SpanOutbox(`${collector.url}/v1/traces`, (reason) => assert.unreachable(reason));
  const clock = new VirtualClock(5000);
  const now = () => EPOCH_MS + clock.now();
  const tracing = new Tracing(outbox, 'w-1', now, () => clock.now());
  return { collector, clock, tracing, flushed: () => outbox.shutdown() };
}

/** An application whose clock moves by 10 ms with each batch of tokens. */
async function tracedApp() {
  const made = await setUp();
  const { clock, tracing } = made;
  const scripted = new ScriptedRunner();
  const tick: RequestObserver = { onTokens: () => clock.jump(10) };
  const lines: Record<string, unknown>[] = [];
  const log = createLog('info', undefined, { write: (line) => void lines.push(JSON.parse(line)) });
  const monotonicNow = () => clock.now();
  const runner = new ObservedRunner(scripted, [tick, tracing], monotonicNow);
  return { ...made, ...testApp({ runner, tracing, monotonicNow, log }), scripted, lines };
}

/** Where a span is in its trace, from the time at which the clock began. */
function timesOf({ startMs, endMs }: CollectedSpan): [number, number] {
  return [Math.round(startMs - EPOCH_MS - 5000), Math.round(endMs - EPOCH_MS - 5000)];
}

test('a request has a span of its route, continued from its caller’s, and below it queue, prefill and decode', async () => {
  const { collector, flushed, post, scripted, lines } = await tracedApp();
  scripted.script = [[97], [98, 99], [EOS_ID]];
  const response = await post('/v1/completions', { model: 'bytes', prompt: 'secret prompt' }, SAMPLED);
  assert.is(response.status, 200);
  await response.text();
  await flushed();
  const server = collector.span('POST /v1/completions');
  assert.equal([server.traceId, server.parentSpanId, server.isError], [TRACE_ID, CALLER, false]);
  assert.equal(server.attributes, {
    'http.request.method': 'POST',
    'http.route': '/v1/completions',
    'http.response.status_code': 200,
    'gen_ai.operation.name': 'text_completion',
    'gen_ai.provider.name': 'runnel',
    'gen_ai.request.model': 'bytes',
    'gen_ai.response.model': 'bytes',
    'gen_ai.usage.input_tokens': 13,
    'gen_ai.usage.output_tokens': 4,
    'gen_ai.usage.cache_read.input_tokens': 0,
  });
  const [queue, prefill, decode] = ['queue', 'prefill', 'decode'].map((name) => collector.span(name));
  assert.equal(
    [queue, prefill, decode].map((span) => span && [span.traceId, span.parentSpanId, ...timesOf(span)]),
    [
      [TRACE_ID, server.spanId, 0, 1],
      [TRACE_ID, server.spanId, 1, 10],
      [TRACE_ID, server.spanId, 10, 30],
    ],
  );
  assert.equal(timesOf(server), [0, 30]);
  assert.equal(prefill?.attributes, { 'runnel.prompt_tokens': 13, 'runnel.cached_tokens': 0 });
  assert.equal(decode?.attributes, { 'runnel.tokens': 4, 'runnel.outcome': 'eos' });
  assert.is(collector.spans.length, 4);
  assert.is(collector.resource['service.name'], 'runnel');
  assert.is(collector.resource['service.instance.id'], 'w-1');
  assert.not.match(collector.received, /secret|abc/);
  const { trace_id, parent_span_id, span_id, sampled } = lines.find(({ event }) => event === 'request') ?? {};
  assert.equal([trace_id, parent_span_id, span_id, sampled], [TRACE_ID, CALLER, server.spanId, true]);
});

test('a request without a caller’s trace begins one, which its log line names', async () => {
  const { collector, flushed, post, scripted, lines } = await tracedApp();
  scripted.script = [[97, EOS_ID]];
  const messages = [{ role: 'user', content: 'a' }];
  await (await post('/v1/chat/completions', { model: 'bytes', messages, n: 2 })).text();
  await flushed();
  const server = collector.span('POST /v1/chat/completions');
  assert.is(server.parentSpanId, undefined);
  assert.is(server.attributes['gen_ai.operation.name'], 'chat');
  const [line] = lines.filter(({ event }) => event === 'request');
  assert.equal(
    [line?.trace_id, line?.span_id, line !== undefined && 'parent_span_id' in line],
    [server.traceId, server.spanId, false],
  );
  const decodes = collector.spans.filter(({ name }) => name === 'decode');
  assert.equal(
    decodes.map(({ parentSpanId }) => parentSpanId),
    [server.spanId, server.spanId],
    'one for each choice',
  );
});

test('a trace that its caller does not record is not recorded here, and probes are never', async () => {
  const { collector, flushed, post, get, scripted, lines } = await tracedApp();
  scripted.script = [[97, EOS_ID]];
  const unsampled = { traceparent: `00-${TRACE_ID}-${CALLER}-00` };
  await (await post('/v1/completions', { model: 'bytes', prompt: 'a' }, unsampled)).text();
  await (await get('/health')).text();
  await (await get('/nowhere')).text();
  await flushed();
  assert.equal(
    collector.spans.map(({ name }) => name),
    ['GET'],
  );
  const [line] = lines.filter(({ event }) => event === 'request');
  assert.equal([line?.trace_id, line?.parent_span_id, line?.sampled], [TRACE_ID, CALLER, false]);
});

test('an embedding has a queue and a prefill, and a failure says in the span in which it came what it was', async () => {
  const { collector, flushed, post, scripted, lines } = await tracedApp();
  await (await post('/v1/embeddings', { model: 'bytes', input: ['ab', 'cd'] })).text();
  scripted.script = [[97], new GenerationError('INFERENCE_FAILED', 'It broke.', { retriable: false })];
  await (await post('/v1/completions', { model: 'bytes', prompt: 'a' })).text();
  await flushed();
  const embeddings = collector.span('POST /v1/embeddings');
  assert.is(embeddings.attributes['gen_ai.operation.name'], 'embeddings');
  const below = collector.spans.filter(({ parentSpanId }) => parentSpanId === embeddings.spanId);
  assert.equal(
    below.map(({ name }) => name),
    ['queue', 'prefill', 'queue', 'prefill'],
  );
  const { isError, attributes } = collector.span('decode');
  const failed = {
    'runnel.tokens': 1,
    'runnel.outcome': 'inference_failed',
    'error.type': 'inference_failed',
  };
  assert.equal([isError, attributes], [true, failed]);
  const server = collector.span('POST /v1/completions');
  assert.equal([server.isError, server.attributes['error.type']], [true, '500']);
  const error = lines.find(({ event }) => event === 'error');
  assert.equal([error?.trace_id, error?.span_id], [server.traceId, server.spanId]);
});

const PARENT = { traceId: TRACE_ID, spanId: CALLER };
const traced = { trace: PARENT };

/** A runner that is observed by traces alone. */
function observedBy({ clock, tracing }: Setup, runner: Runner): ObservedRunner {
  return new ObservedRunner(runner, [tracing], () => clock.now());
}

test('the death of a runner is a restart in the decode span, with the tokens so far, then a prefill, and the tokens go on', async () => {
  const made = await setUp();
  const { collector, clock } = made;
  const { supervisor, kill } = await ready(['--delay-ms', '5']);
  let numBefore = 0;
  const onBatch = async (ids: readonly number[]) => {
    clock.jump(1);
    if (ids.length < 5 || numBefore > 0) return;
    numBefore = ids.length;
    await kill();
  };
  await collectExact(observedBy(made, supervisor), requestOf([1, 2, 3], 200, traced), { onBatch });
  await made.flushed();
  const decode = collector.span('decode');
  const restart = collector.span('restart');
  assert.is(decode.parentSpanId, CALLER);
  assert.equal(decode.attributes, { 'runnel.tokens': 200, 'runnel.outcome': 'max_tokens' });
  assert.is(restart.parentSpanId, decode.spanId);
  const numSoFar = restart.attributes['runnel.tokens'] as number;
  assert.ok(numSoFar >= numBefore && numSoFar < 200, String(numSoFar));
  const prefills = collector.spans.filter(({ name }) => name === 'prefill');
  assert.equal(
    prefills.map(({ parentSpanId }) => parentSpanId),
    [CALLER, decode.spanId],
  );
  assert.is(prefills[1]?.startMs, restart.endMs);
  assert.ok(decode.startMs <= restart.startMs && (prefills[1]?.endMs ?? Infinity) <= decode.endMs);
});

test('a runner that dies before the first token is a restart beside queue and prefill', async () => {
  const made = await setUp();
  const { collector, clock } = made;
  const hold = temporaryDirectory().write('hold', '');
  const { supervisor, kill, state } = await ready(['--hold-file', hold]);
  const answer = collectExact(observedBy(made, supervisor), requestOf([1], 20, traced));
  clock.jump(100);
  await kill();
  clock.jump(100);
  await state('ready');
  unlinkSync(hold);
  await answer;
  await made.flushed();
  assert.equal(
    collector.spans.map(({ name, parentSpanId }) => [name, parentSpanId]).sort(),
    ['decode', 'prefill', 'queue', 'restart'].map((name) => [name, CALLER]),
  );
  const restart = collector.span('restart');
  assert.equal([restart.attributes, ...timesOf(restart)], [{ 'runnel.tokens': 0 }, 100, 200]);
});

test('a request that ends before its first token has spans as far as it came, without a restart when all are failed', async () => {
  const made = await setUp();
  const { collector, clock } = made;
  const hold = temporaryDirectory().write('hold', '');
  const { supervisor } = await ready(['--hold-file', hold, '--max-num-seqs', '1']);
  const runner = observedBy(made, supervisor);
  const errors: string[] = [];
  const sink = { onTokens: () => {}, onError: ({ code }: GenerationError) => errors.push(code) };
  runner.generate(requestOf([1], 20, traced), sink);
  for (let i = 0; i < 8; i++) runner.generate(requestOf([2], 20, traced), sink).cancel();
  runner.generate(requestOf([3], 20), sink);
  clock.jump(50);
  supervisor.failOpen(new GenerationError('INFERENCE_FAILED', 'It broke.', { retriable: false }));
  await until(patienceMs, 'the failures', () => errors.length === 2);
  await made.flushed();
  const failed = collector.spans.filter(({ isError }) => isError);
  assert.equal(
    failed.map((span) => [span.name, ...timesOf(span)]),
    [['prefill', 0, 50]],
  );
  const outcomes = collector.spans.map(({ attributes }) => attributes['runnel.outcome']);
  assert.is(outcomes.filter((outcome) => outcome === 'cancelled').length, 8);
  assert.equal([...new Set(collector.spans.map(({ name }) => name))].sort(), ['prefill', 'queue']);
});

test.run();
