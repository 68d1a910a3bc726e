import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { randomIds } from '../../../gateway/system/ids.ts';
import { traceOf } from '../../../gateway/telemetry/trace-context.ts';
import { recordedCases } from '../../fixtures/recorded-cases.ts';

const test = suite('trace context');

const TRACE = '0af7651916cd43dd8448eb211c80319c';
const SPAN = 'b7ad6b7169203331';

recordedCases(test, import.meta.url, (header) => {
  const trace = traceOf(header, randomIds);
  return trace === undefined ? 'none' : `${trace.trace_id} ${trace.parent_span_id} sampled ${trace.sampled}`;
});

test('no header is no trace', () => {
  assert.is(traceOf(undefined, randomIds), undefined);
});

test('each request gets a new span', () => {
  const spans = new Set(
    Array.from({ length: 50 }, () => traceOf(`00-${TRACE}-${SPAN}-01`, randomIds)?.span_id),
  );
  assert.is(spans.size, 50);
  for (const span of spans) assert.match(span ?? '', /^[0-9a-f]{16}$/);
});

test.run();
