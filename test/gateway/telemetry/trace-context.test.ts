import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { randomIds } from '../../../gateway/system/ids.ts';
import { traceOf } from '../../../gateway/telemetry/trace-context.ts';

const test = suite('trace context');

const TRACE = '0af7651916cd43dd8448eb211c80319c';
const SPAN = 'b7ad6b7169203331';

test('a traceparent is read as the specification has it', () => {
  const read = (header: string) => {
    const { trace_id, parent_span_id, sampled } = traceOf(header, randomIds) ?? {};
    return [trace_id, parent_span_id, sampled];
  };
  assert.equal(read(`00-${TRACE}-${SPAN}-01`), [TRACE, SPAN, true]);
  assert.equal(read(`00-${TRACE}-${SPAN}-00`), [TRACE, SPAN, false]);
  // Only the last bit of the flags is defined.
  assert.equal(read(`00-${TRACE}-${SPAN}-fe`), [TRACE, SPAN, false]);
  // In a later version, the parts that this version defines count.
  assert.equal(read(`cc-${TRACE}-${SPAN}-01-what-the-future-will-be-like`), [TRACE, SPAN, true]);
  assert.equal(read(`cc-${TRACE}-${SPAN}-01`), [TRACE, SPAN, true]);
});

test('a broken traceparent is ignored', () => {
  const broken = [
    '',
    'a',
    `ff-${TRACE}-${SPAN}-01`,
    `0-${TRACE}-${SPAN}-01`,
    `00-${'0'.repeat(32)}-${SPAN}-01`,
    `00-${TRACE}-${'0'.repeat(16)}-01`,
    `00-${TRACE.toUpperCase()}-${SPAN}-01`,
    `00-${TRACE.slice(1)}-${SPAN}-01`,
    `00-${TRACE}-${SPAN}0-01`,
    `00-${TRACE}-${SPAN}`,
    `00-${TRACE}-${SPAN}-1`,
    `00-${TRACE}-${SPAN}-01-more`,
    `cc-${TRACE}-${SPAN}-01.more`,
    // The header was sent twice.
    `00-${TRACE}-${SPAN}-01, 00-${TRACE}-${SPAN}-01`,
  ];
  assert.is(traceOf(undefined, randomIds), undefined);
  for (const header of broken) assert.is(traceOf(header, randomIds), undefined, header);
});

test('each request gets a new span', () => {
  const spans = new Set(
    Array.from({ length: 50 }, () => traceOf(`00-${TRACE}-${SPAN}-01`, randomIds)?.span_id),
  );
  assert.is(spans.size, 50);
  for (const span of spans) assert.match(span ?? '', /^[0-9a-f]{16}$/);
});

test.run();
