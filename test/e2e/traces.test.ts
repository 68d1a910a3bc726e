/** Traces of the real gateway: what leaves it, what is loaded for it, and a collector that does not answer. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import * as assert from 'uvu/assert';
import { closeLater, closingSuite } from '../fixtures/closing-suite.ts';
import { TINY_MODEL } from '../fixtures/default-model.ts';
import { Gateway } from '../fixtures/gateway.ts';
import { OtlpCollector } from '../fixtures/otlp-collector.ts';
import { temporaryFolder } from '../fixtures/temporary-folder.ts';

const test = closingSuite('traces');

const BODY = {
  model: 'tiny-llama-q8_0',
  messages: [{ role: 'user', content: 'Say hello to the world.' }],
  ...{ stream: true, max_tokens: 8, temperature: 0 },
};

interface Coverage {
  readonly result: readonly {
    readonly url: string;
    readonly functions: readonly {
      readonly functionName: string;
      readonly ranges: readonly { count: number }[];
    }[];
  }[];
}

/** OpenTelemetry's packages that have run in processes which wrote their coverage to this folder. */
function packagesRun(folder: string): string[] {
  const found = new Set<string>();
  for (const name of readdirSync(folder)) {
    const { result } = JSON.parse(readFileSync(join(folder, name), 'utf8')) as Coverage;
    for (const { url, functions } of result) {
      // A module is a script of its own in the sources, and a function with the path as its name in the bundle.
      const ran = functions.filter(({ ranges }) => (ranges[0]?.count ?? 0) > 0);
      for (const path of [url, ...ran.map(({ functionName }) => functionName)]) {
        const [, name] = /node_modules\/@opentelemetry\/([^/]+)/.exec(path) ?? [];
        if (name !== undefined) found.add(name);
      }
    }
  }
  return [...found].sort();
}

async function started(args: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<Gateway> {
  const gateway = await Gateway.startOn(TINY_MODEL, ['--port', '0', ...args], { env });
  closeLater(() => gateway.stop('SIGKILL'));
  return gateway.ready();
}

async function chat(gateway: Gateway): Promise<string> {
  const text = await (await gateway.post('/v1/chat/completions', BODY)).text();
  assert.ok(text.endsWith('data: [DONE]\n\n'), text);
  return text.replaceAll(/"(id|created)":("[^"]*"|\d+)/g, '');
}

test('without --otlp-endpoint nothing of OpenTelemetry’s SDK is loaded', async () => {
  const folder = temporaryFolder().path;
  // Clusters set this variable for all programs.
  const env = { NODE_V8_COVERAGE: folder, OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:9' };
  const gateway = await started([], env);
  await chat(gateway);
  assert.equal(await gateway.stop(), { code: 0, signal: null });
  // The library of the metrics uses the interfaces.
  assert.equal(packagesRun(folder), ['api']);
});

test('a variable names the collector, which has all spans when the gateway has stopped', async () => {
  const collector = await OtlpCollector.open();
  const folder = temporaryFolder().path;
  const gateway = await started([], {
    NODE_V8_COVERAGE: folder,
    RUNNEL_OTLP_ENDPOINT: `${collector.url}/`,
    OTEL_SERVICE_NAME: 'models',
  });
  await chat(gateway);
  assert.equal(await gateway.stop(), { code: 0, signal: null });
  const server = collector.span('POST /v1/chat/completions');
  assert.is(collector.resource['service.name'], 'models');
  const below = collector.spans.filter(({ parentSpanId }) => parentSpanId === server.spanId);
  assert.equal(
    below.map(({ name, traceId }) => [name, traceId]),
    ['queue', 'prefill', 'decode'].map((name) => [name, server.traceId]),
  );
  const [queue, prefill, decode] = below;
  assert.ok(queue && prefill && decode);
  assert.ok(server.startMs <= queue.startMs && decode.endMs <= server.endMs);
  assert.equal([queue.endMs, prefill.endMs], [prefill.startMs, decode.startMs]);
  assert.match(gateway.log, new RegExp(`"event":"request".*"trace_id":"${server.traceId}"`));
  assert.not.match(collector.received, /hello/);
  assert.ok(packagesRun(folder).includes('sdk-trace-base'));
});

test('answers are the same while the collector hangs, and the gateway stops', async () => {
  const collector = await OtlpCollector.open();
  collector.answer = () => {};
  const gateway = await started(['--otlp-endpoint', collector.url]);
  const first = await chat(gateway);
  await gateway.logged(/traces_not_exported.*does not take traces/);
  assert.is(await chat(gateway), first);
  const metrics = await (await fetch(`${gateway.url}/metrics`)).text();
  assert.match(metrics, /^runnel_trace_spans_dropped_total [1-9]/m);
  assert.equal(await gateway.stop(), { code: 0, signal: null });
});

test.run();
