import { BasicTracerProvider } from '@opentelemetry/sdk-trace-base';
import * as assert from 'uvu/assert';
import { Metrics } from '../../../gateway/telemetry/metrics.ts';
import { maxWaitingSpans, SpanOutbox } from '../../../gateway/telemetry/span-outbox.ts';
import { closingSuite } from '../../fixtures/closing-suite.ts';
import { freePort } from '../../fixtures/free-port.ts';
import { OtlpCollector } from '../../fixtures/otlp-collector.ts';
import { PATIENCE_MS, until, within } from '../../fixtures/within.ts';

const test = closingSuite('span outbox');

/** Too short for the second attempt, which comes a second after the first one. Only for collectors that take nothing. */
const TIMEOUT_MS = 300;

function outboxTo(url: string, timeoutMs = PATIENCE_MS) {
  const failures: string[] = [];
  const outbox = new SpanOutbox(`${url}/v1/traces`, (reason) => failures.push(reason), timeoutMs);
  const tracer = new BasicTracerProvider({ spanProcessors: [outbox] }).getTracer('test');
  const endSpans = (count: number): void => {
    for (let i = 0; i < count; i++) tracer.startSpan('a').end();
  };
  return { outbox, failures, endSpans };
}

test('a collector that refuses, or is not there, costs its spans, which are counted, and one notice until it takes some', async () => {
  const collector = await OtlpCollector.open();
  const { outbox, failures, endSpans } = outboxTo(collector.url);
  const settled = async (): Promise<void> => {
    endSpans(3);
    const { numExported, numDropped } = outbox.figures;
    await until(PATIENCE_MS, 'the end of a batch', () => {
      const { figures } = outbox;
      return figures.numExported + figures.numDropped === numExported + numDropped + 3;
    });
  };
  collector.answer = (response) => response.writeHead(400, 'No spans').end();
  await settled();
  await settled();
  assert.equal([failures, outbox.figures], [['No spans'], { numExported: 0, numDropped: 6 }]);
  collector.answer = (response) => response.writeHead(200).end('{}');
  await settled();
  // It is not asked again, since the batch is not tried as long.
  collector.answer = (response) => response.writeHead(503, { 'retry-after': '3600' }).end();
  await settled();
  assert.equal(outbox.figures, { numExported: 3, numDropped: 9 });
  assert.is(failures.length, 2);
  await outbox.shutdown();
  const nowhere = outboxTo(`http://127.0.0.1:${await freePort()}`, TIMEOUT_MS);
  nowhere.endSpans(1);
  await nowhere.outbox.shutdown();
  await until(PATIENCE_MS, 'the drop', () => nowhere.outbox.figures.numDropped === 1);
  // On a busy machine the time may be over before the refusal is read.
  assert.match(nowhere.failures.join(), /ECONNREFUSED|timed out/);
});

test('spans that come while too many wait for a collector that hangs are dropped and counted, and the end does not wait for it', async () => {
  const collector = await OtlpCollector.open();
  collector.answer = () => {};
  const { outbox, endSpans } = outboxTo(collector.url, TIMEOUT_MS);
  endSpans(maxWaitingSpans + 5);
  assert.equal(outbox.figures, { numExported: 0, numDropped: 5 });
  await within(PATIENCE_MS, 'the end', outbox.shutdown());
  await until(PATIENCE_MS, 'the drop', () => outbox.figures.numDropped === maxWaitingSpans + 5);
  endSpans(1);
  assert.is(outbox.figures.numDropped, maxWaitingSpans + 5, 'there is room again');
});

test('metrics count the spans that were exported and dropped', async () => {
  const metrics = new Metrics(() => 0);
  assert.match(await metrics.text(), /^runnel_trace_spans_dropped_total 0$/m);
  metrics.showTraces({ numExported: 7, numDropped: 5 });
  const text = await metrics.text();
  assert.match(text, /^runnel_trace_spans_exported_total 7$/m);
  assert.match(text, /^runnel_trace_spans_dropped_total 5$/m);
});

test.run();
