import * as assert from 'uvu/assert';
import { createLog } from '../../../gateway/telemetry/log.ts';
import { testApp } from '../../fixtures/app.ts';
import { EOS_ID } from '../../fixtures/byte-model.ts';
import { closingSuite } from '../../fixtures/closing-suite.ts';
import { listening } from '../../fixtures/listening.ts';
import { RawClient } from '../../fixtures/raw-client.ts';
import { keepFromLogs, watchLog } from '../../fixtures/suite-rules.ts';
import { PATIENCE_MS, until } from '../../fixtures/within.ts';

const test = closingSuite('request log');

interface Line {
  readonly level: string;
  readonly event: string;
  readonly method?: string;
  readonly route?: string | null;
  readonly status?: number;
  readonly duration_ms?: number;
  readonly client_gone?: true;
  readonly correlation_id?: string;
  readonly request_id?: string;
}

function setUp() {
  const lines: Line[] = [];
  const texts: string[] = [];
  watchLog(() => texts.join(''));
  const log = createLog('debug', undefined, {
    write(text) {
      texts.push(text);
      lines.push(JSON.parse(text) as Line);
    },
  });
  const requests = () => lines.filter(({ event }) => event === 'request');
  return { ...testApp({ log }), lines, requests };
}

test('every route logs one line with its method, route, status and duration, and nothing that was asked', async () => {
  const { app, runner, lines, requests } = setUp();
  runner.script = [[EOS_ID]];
  const canary = 'canary-canary';
  keepFromLogs(canary);
  const bodies: Record<string, object> = {
    '/execute': { job_id: 'a', prompt: canary, max_tokens: 4 },
    '/cancel': { job_id: canary },
    '/v1/chat/completions': { model: 'bytes', messages: [{ role: 'user', content: canary }] },
    '/v1/completions': { model: 'bytes', prompt: canary },
    '/tokenize': { content: canary },
    '/detokenize': { tokens: [97] },
    '/runner/restart': {},
  };
  const routes = new Map(
    app.routes.filter(({ method }) => method !== 'ALL').map((r) => [`${r.method} ${r.path}`, r]),
  );
  assert.ok(routes.size > 10);
  for (const [name, { method, path }] of routes) {
    lines.splice(0);
    const headers = { 'x-correlation-id': 'abc-1', 'content-type': 'application/json' };
    const body = method === 'POST' ? JSON.stringify(bodies[path]) : null;
    const response = await app.request(path.replace(':id', canary), { method, headers, body });
    await response.text();
    const got = requests();
    if (path === '/execute') {
      assert.equal(
        lines.map(({ event }) => event),
        ['execute_start', 'execute_end'],
        'not doubled',
      );
      continue;
    }
    assert.is(got.length, 1, name);
    const [line] = got as [Line];
    assert.equal(
      [line.method, line.route, line.status, line.correlation_id],
      [method, path, response.status, 'abc-1'],
    );
    assert.ok(Number.isInteger(line.duration_ms));
    assert.is(line.request_id !== undefined, path.startsWith('/v1/'), name);
    const isProbe = ['/health', '/ready', '/ping', '/metrics', '/metrics/load'].includes(path);
    assert.is(line.level, isProbe ? 'debug' : 'info', name);
  }
});

test('each route’s log lines name the request’s trace and a new span', async () => {
  const { app, runner, lines } = setUp();
  runner.script = [[EOS_ID]];
  const traceparent = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';
  const headers = { traceparent, 'content-type': 'application/json' };
  const spans = new Set<string>();
  const asked: Record<string, object> = {
    '/execute': { job_id: 'a', prompt: 'a', max_tokens: 4 },
    '/v1/completions': { model: 'bytes', prompt: 'a' },
    '/v1/messages': { model: 'bytes', max_tokens: 4, messages: [{ role: 'user', content: 'a' }] },
    '/api/generate': { model: 'bytes', prompt: 'a' },
    '/nowhere': {},
  };
  for (const [path, body] of Object.entries(asked)) {
    lines.splice(0);
    const response = await app.request(path, { method: 'POST', headers, body: JSON.stringify(body) });
    await response.text();
    const [first] = lines as unknown as Record<string, unknown>[];
    for (const line of lines as unknown as Record<string, unknown>[]) {
      const { trace_id, parent_span_id, span_id, sampled } = line;
      assert.equal(
        [trace_id, parent_span_id, sampled],
        ['4bf92f3577b34da6a3ce929d0e0e4736', '00f067aa0ba902b7', true],
        path,
      );
      assert.is(span_id, first?.span_id);
    }
    assert.match(String(first?.span_id), /^[0-9a-f]{16}$/);
    spans.add(String(first?.span_id));
  }
  assert.is(spans.size, Object.keys(asked).length);
  lines.splice(0);
  await app.request('/health', { headers: { traceparent: '00-0-0-00' } });
  assert.is('trace_id' in (lines[0] as object), false, 'a broken one is ignored');
});

test('the line of a stream comes at its end, and says if its client has left', async () => {
  const { app, runner, requests } = setUp();
  const { port } = await listening(app.fetch);
  const client = await RawClient.connect(port);
  runner.script = [[97], 'wait'];
  client.post('/v1/completions', { model: 'bytes', prompt: 'x', stream: true });
  await until(PATIENCE_MS, 'A token', () => client.received.includes('data: '));
  assert.is(requests().length, 0);
  client.socket.destroy();
  await until(PATIENCE_MS, 'The line', () => requests().length === 1);
  assert.is(requests()[0]?.client_gone, true);
  runner.script = [[97, EOS_ID]];
  const whole = await RawClient.connect(port);
  whole.post('/v1/completions', { model: 'bytes', prompt: 'x', stream: true });
  await until(PATIENCE_MS, 'The other line', () => requests().length === 2);
  const { status, client_gone } = requests()[1] as Line;
  assert.equal([status, client_gone], [200, undefined]);
  whole.socket.destroy();
});

test.run();
